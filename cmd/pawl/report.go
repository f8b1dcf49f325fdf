package main

import (
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// summary says on one line what an event is about and, of a cancelled activity, how it ended.
func summary(e history.Event, r *client.Report) string {
	text := diagnose.Short(show.Summary(e), shortCell)
	if r == nil {
		return text
	}
	return text + " → " + diagnose.CancelOutcome(*r)
}
