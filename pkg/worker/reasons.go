package worker

import (
	"context"
	"slices"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// The commit that deletes a lease records the reason, so it stands near the end of history:
// behind it are at most the other cancellations of its turn, and the turns of a moment.
const (
	page   = 1000 // events read at a time
	recent = 12 * page
)

// reasons finds in history why a lease is gone.
type reasons struct {
	runner *redisx.Runner
	space  redisx.Space
}

// of reads the end of the execution's history. It reports false if that does not say,
// or can not be read.
func (r *reasons) of(ctx context.Context, ref lease.Ref) (cancel.Cancelled, bool) {
	key := r.space.Part(ref.Part).History(ref.Instance, ref.Execution)
	for from := -page; from >= -recent; from -= page {
		reply, err := r.runner.Do(ctx, redisx.Command("LRANGE", key, from, from+page-1))
		if err != nil {
			return cancel.Cancelled{}, false
		}
		events, _ := reply.([]any)
		if c, ok := find(events, ref.Activity); ok {
			return cancel.Cancelled{Reason: c.Reason, By: c.By, Text: c.Text, At: c.Time()}, true
		}
		switch {
		case len(events) == 0 && from == -page:
			return r.bygone(ctx, ref)
		case len(events) < page:
			return cancel.Cancelled{}, false
		}
	}
	return cancel.Cancelled{}, false
}

func find(events []any, activity uint64) (*history.ActivityCancelRequested, bool) {
	for _, raw := range slices.Backward(events) {
		text, _ := raw.(string)
		e, err := history.Decode(0, []byte(text))
		if err != nil {
			continue // of a newer build, perhaps; it may stand in front of what is looked for
		}
		if c, ok := e.(*history.ActivityCancelRequested); ok && c.Scheduled == activity {
			return c, true
		}
	}
	return nil, false
}

// bygone gives the reason for a history that is gone with all that it said: the instance
// was purged, or has gone on to later executions.
func (r *reasons) bygone(ctx context.Context, ref lease.Ref) (cancel.Cancelled, bool) {
	reply, err := r.runner.Do(ctx, redisx.Command("HGET", r.space.Part(ref.Part).Instance(ref.Instance), "execution"))
	if err != nil {
		return cancel.Cancelled{}, false
	}
	if reply == nil {
		return cancel.Cancelled{Reason: cancel.Purged, Text: "the instance is no more"}, true
	}
	now, err := redisx.Int(reply)
	if err == nil && now > 0 && uint64(now) > ref.Execution {
		return cancel.Cancelled{Reason: cancel.ContinuedAsNew}, true
	}
	return cancel.Cancelled{}, false
}
