package main

import (
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/queue"
)

// customJSON is a custom status for a program.
type customJSON struct {
	Version uint64          `json:"version"`
	Value   json.RawMessage `json:"value,omitempty"`
	Cleared bool            `json:"cleared,omitempty"`
}

func asCustomJSON(c *queue.Custom) *customJSON {
	if c == nil {
		return nil
	}
	return &customJSON{Version: c.Version, Value: show.Payload(c.Payload), Cleared: c.Cleared}
}

// customText is a custom status for a person.
func customText(c queue.Custom) string {
	if c.Cleared {
		return fmt.Sprintf("cleared (version %d)", c.Version)
	}
	return fmt.Sprintf("%s (version %d)", short(string(show.Payload(c.Payload)), shortField), c.Version)
}
