package worker

import (
	"context"

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

// of reads the execution's history, from its end until every reason is found. Of what it
// does not say there, or if it can not be read, there is no reason.
func (r *reasons) of(ctx context.Context, of lease.Ref, activities []uint64) map[uint64]cancel.Cancelled {
	key := r.space.Part(of.Part).History(of.Instance, of.Execution)
	wanted, found := make(map[uint64]bool, len(activities)), make(map[uint64]cancel.Cancelled, len(activities))
	for _, a := range activities {
		wanted[a] = true
	}
	for from := -page; from >= -recent && len(found) < len(wanted); from -= page {
		reply, err := r.runner.Do(ctx, redisx.Command("LRANGE", key, from, from+page-1))
		if err != nil {
			return found
		}
		events, _ := reply.([]any)
		find(events, wanted, found)
		if len(events) == 0 && from == -page {
			if why, ok := r.bygone(ctx, of); ok {
				for a := range wanted {
					found[a] = why
				}
			}
			return found
		}
		if len(events) < page {
			break
		}
	}
	return found
}

// find adds what the events say of those that are wanted.
func find(events []any, wanted map[uint64]bool, found map[uint64]cancel.Cancelled) {
	for _, raw := range events {
		text, _ := raw.(string)
		e, err := history.Decode(0, []byte(text))
		if err != nil {
			continue // of a newer build, perhaps; it may stand beside what is looked for
		}
		if c, ok := e.(*history.ActivityCancelRequested); ok && wanted[c.Scheduled] {
			found[c.Scheduled] = cancel.Cancelled{Reason: c.Reason, By: c.By, Text: c.Text, At: c.Time()}
		}
	}
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
