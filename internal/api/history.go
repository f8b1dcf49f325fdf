package api

import (
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/lease"
)

// HistoryEvent is an event of a history, together with a report of how a cancelled activity ended, which is stored separately.
type HistoryEvent struct {
	show.Line

	Report *CancelReport `json:"report,omitempty"`
}

// CancelReport describes how a cancelled activity ended.
type CancelReport struct {
	How     lease.Ending `json:"how"`
	AfterMS int64        `json:"after_ms"` // time since its context was cancelled
	Worker  string       `json:"worker,omitempty"`
	At      string       `json:"at,omitempty"`
}

// HistoryEventOf converts an entry of the history of an instance.
func HistoryEventOf(instance string, e client.Entry) (HistoryEvent, error) {
	l, err := show.JSON(instance, e.Event)
	if err != nil || e.Report == nil {
		return HistoryEvent{Line: l}, err
	}
	r := &CancelReport{How: e.Report.Ending, AfterMS: e.Report.After.Milliseconds(), Worker: e.Report.Worker, At: Timestamp(e.Report.At)}
	return HistoryEvent{Line: l, Report: r}, nil
}
