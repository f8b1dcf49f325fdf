package orchestrator

import (
	"context"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// How a cancelled activity ended stands beside history, not in it: see lease.Report. A worker says most of it. That
// the completion was in the inbox before the turn that cancelled the activity only the owner can tell: it
// drops it.

// noteLate keeps a completion that was dropped, because its activity had been cancelled. What the first turn of an
// execution drops is of the one before, where the same number was another activity's.
func (t *turn) noteLate(ev history.Event) {
	if t.begins() {
		return
	}
	var id uint64
	r := lease.Report{Ending: lease.FinishedFirst}
	switch ev := ev.(type) {
	case *history.ActivityCompleted:
		id, r.Worker, r.At = ev.Scheduled, ev.Worker, ev.At
	case *history.ActivityFailed:
		id, r.Worker, r.At = ev.Scheduled, ev.Worker, ev.At
	default:
		return
	}
	t.late = append(t.late, lease.Reported{Activity: id, Report: r})
}

// reports reads how the activities ended whose cancellations are among the events.
func (qs *queries) reports(ctx context.Context, id string, execution, after uint64, raw [][]byte) ([]request.Report, error) {
	var ids []uint64
	for i, b := range raw {
		e, err := history.Decode(after+uint64(i)+1, b)
		if err != nil {
			continue // who reads the history is told
		}
		if c, ok := e.(*history.ActivityCancelRequested); ok {
			ids = append(ids, c.Scheduled)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	texts, err := qs.store.Reports(ctx, qs.st.Part, id, execution, ids)
	if err != nil {
		return nil, err
	}
	var out []request.Report
	for i, text := range texts {
		if text != "" {
			out = append(out, request.Report{Activity: ids[i], Text: text})
		}
	}
	return out, nil
}
