package main

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// customText is a custom status for a person.
func customText(c client.StatusAt[history.Payload]) string {
	if c.Cleared {
		return fmt.Sprintf("cleared (version %d)", c.Version)
	}
	return fmt.Sprintf("%s (version %d)", diagnose.Short(string(show.Payload(c.Value)), diagnose.MaxText), c.Version)
}
