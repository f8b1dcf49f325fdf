package worker

import (
	"context"
	"slices"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// recent is how much of a history is searched for the reason of a cancellation. The
// commit that deletes a lease records the reason, so it stands near the end.
const recent = 1000

// reasons finds in history why a lease is gone.
type reasons struct {
	runner *redisx.Runner
	space  redisx.Space
}

// of reads the end of the execution's history. It reports false if that does not say,
// or can not be read.
func (r *reasons) of(ctx context.Context, ref lease.Ref) (cancel.Cancelled, bool) {
	key := r.space.Part(ref.Part).History(ref.Instance, ref.Execution)
	reply, err := r.runner.Do(ctx, redisx.Command("LRANGE", key, -recent, -1))
	if err != nil {
		return cancel.Cancelled{}, false
	}
	events, _ := reply.([]any)
	for _, raw := range slices.Backward(events) {
		text, _ := raw.(string)
		e, err := history.Decode(0, []byte(text))
		if err != nil {
			continue // of a newer build, perhaps; it may stand in front of what is looked for
		}
		c, ok := e.(*history.ActivityCancelRequested)
		if ok && c.Scheduled == ref.Activity {
			return cancel.Cancelled{Reason: c.Reason, By: c.By, Text: c.Text, At: c.Time()}, true
		}
	}
	return cancel.Cancelled{}, false
}
