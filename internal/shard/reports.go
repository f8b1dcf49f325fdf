package shard

import (
	"context"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// How a cancelled activity ended stands beside history, not in it: see lease.Report. A worker says most of it. That
// the completion was in the inbox before the turn that cancelled the activity only the owner can tell: it
// drops it.

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
