package record_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// commit.lua writes only the fields that a commit names, and clears those of the previous incarnation only if the commit begins a new one.
func TestRecordInMemoryKeepsTheFieldsThatTheScriptKeeps(t *testing.T) {
	parent := &history.Parent{Instance: "order-1"}
	was := func() *record.Record {
		return &record.Record{
			Name: "ship", Execution: 1, Status: record.Running, Parent: parent, Attributes: "a", CustomVersion: 3,
			Retained: []string{"kept", "released"}, Published: record.Watermark{Execution: 1, Event: 4},
		}
	}
	next := (&record.Commit{NewHead: "h2", Record: &record.Record{Name: "ship", Execution: 2, Status: record.Running}, Release: []string{"released"}, Retain: []string{"entered"}}).Advance(was())
	if next.Parent != parent || next.Attributes != "a" || next.CustomVersion != 3 || next.Published.Event != 4 || next.Execution != 2 || next.Head != "h2" {
		t.Errorf("next execution: %+v", next)
	}
	if len(next.Retained) != 2 || next.Retained[0] != "entered" || next.Retained[1] != "kept" {
		t.Errorf("retained: %q", next.Retained)
	}
	successor := (&record.Commit{NewHead: "h3", Record: &record.Record{Name: "ship", Execution: 3, Status: record.Running, NewIncarnation: true}}).Advance(was())
	if successor.Parent != nil || successor.Attributes != "" || successor.CustomVersion != 0 || len(successor.Retained) != 0 || !successor.Replaced {
		t.Errorf("successor: %+v", successor)
	}
	if unchanged := (&record.Commit{NewHead: "h4", Record: &record.Record{}}).Advance(was()); unchanged.Name != "ship" || unchanged.Status != record.Running || unchanged.Execution != 1 {
		t.Errorf("without changes: %+v", unchanged)
	}
}
