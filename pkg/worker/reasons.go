package worker

import (
	"context"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// The commit that deletes a lease records the reason. It is therefore near the end of the history: only the other cancellations of its
// turn, and the turns of the last moments, follow it.
const (
	page      = 1000      // events per request
	maxEvents = 12 * page // events that are searched
)

// reasonFinder finds the reason why a lease is gone in the history.
type reasonFinder struct {
	runner *redisx.Runner
	space  redisx.Space
}

// reasonsOf returns the recorded reasons of the activities' cancellations. It reads the history of the execution backward from its end
// until it has found every reason, or has read maxEvents. Activities without a recorded reason are missing from the result, as are all
// activities if the history cannot be read. It implements leases.Lookup.
func (r *reasonFinder) reasonsOf(ctx context.Context, of leases.Ref, activities []uint64) map[uint64]cancel.Cancelled {
	key := r.space.Part(of.Part).History(of.Instance, of.Execution)
	wanted, found := make(map[uint64]bool, len(activities)), make(map[uint64]cancel.Cancelled, len(activities))
	for _, a := range activities {
		wanted[a] = true
	}
	for from := -page; from >= -maxEvents && len(found) < len(wanted); from -= page {
		reply, err := r.runner.Do(ctx, redisx.Command("LRANGE", key, from, from+page-1))
		if err != nil {
			return found
		}
		events, _ := reply.([]any)
		addReasons(events, wanted, found)
		if len(events) == 0 && from == -page {
			if reason, ok := r.reasonWithoutHistory(ctx, of); ok {
				for a := range wanted {
					found[a] = reason
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

// addReasons adds to found the reasons that the events record for the wanted activities.
func addReasons(events []any, wanted map[uint64]bool, found map[uint64]cancel.Cancelled) {
	for _, raw := range events {
		text, _ := raw.(string)
		e, err := eventcodec.Decode(0, []byte(text))
		if err != nil {
			continue // possibly written by a newer build; a reason may follow
		}
		if c, ok := e.(*history.ActivityCancelRequested); ok && wanted[c.Scheduled] {
			found[c.Scheduled] = cancel.Cancelled{Reason: c.Reason, By: c.By, Text: c.Text, At: c.Time()}
		}
	}
}

// reasonWithoutHistory returns the reason if the execution has no history: the instance was purged, or has continued as a later
// execution.
func (r *reasonFinder) reasonWithoutHistory(ctx context.Context, ref leases.Ref) (cancel.Cancelled, bool) {
	reply, err := r.runner.Do(ctx, redisx.Command("HGET", r.space.Part(ref.Part).Instance(ref.Instance), "execution"))
	if err != nil {
		return cancel.Cancelled{}, false
	}
	if reply == nil {
		return cancel.Cancelled{Reason: cancel.Purged, Text: "the instance does not exist"}, true
	}
	now, err := redisx.Int(reply)
	if err == nil && now > 0 && uint64(now) > ref.Execution {
		return cancel.Cancelled{Reason: cancel.ContinuedAsNew}, true
	}
	return cancel.Cancelled{}, false
}
