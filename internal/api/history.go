package api

import (
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

// HistoryEvent is an event of a history, and what is known beside the history of how a cancelled activity ended.
type HistoryEvent struct {
	show.Line

	Report *CancelReport `json:"report,omitempty"`
}

// CancelReport is how a cancelled activity ended.
type CancelReport struct {
	How     client.How `json:"how"`
	AfterMS int64      `json:"after_ms"` // from the moment when its context was done
	Worker  string     `json:"worker,omitempty"`
	At      string     `json:"at,omitempty"`
}

// HistoryEventOf is an entry of an instance's history.
func HistoryEventOf(instance string, e client.Entry) (HistoryEvent, error) {
	l, err := show.JSON(instance, e.Event)
	if err != nil || e.Report == nil {
		return HistoryEvent{Line: l}, err
	}
	r := &CancelReport{How: e.Report.How, AfterMS: e.Report.After.Milliseconds(), Worker: e.Report.Worker, At: Timestamp(e.Report.At)}
	return HistoryEvent{Line: l, Report: r}, nil
}
