package shard

import (
	"context"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// How a cancelled activity ended is stored next to the history: see lease.Report. Workers write most reports. Only the owner can detect that a
// completion was in the inbox before the turn that cancelled its activity, because the owner drops the completion.

// reports reads how the activities whose cancellations are among the events ended.
func (qs *queries) reports(ctx context.Context, id string, execution, after uint64, raw [][]byte) ([]request.Report, error) {
	var ids []uint64
	for i, b := range raw {
		e, err := eventcodec.Decode(after+uint64(i)+1, b)
		if err != nil {
			continue // the client decodes the same event, and reports the error
		}
		if c, ok := e.(*history.ActivityCancelRequested); ok {
			ids = append(ids, c.Scheduled)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	texts, err := qs.process.store.Reports(ctx, qs.shell.st.Part, id, execution, ids)
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
