package main

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/queue"
)

// customText is a custom status for a person.
func customText(c queue.Custom) string {
	if c.Cleared {
		return fmt.Sprintf("cleared (version %d)", c.Version)
	}
	return fmt.Sprintf("%s (version %d)", diagnose.Short(string(show.Payload(c.Payload)), diagnose.MaxText), c.Version)
}
