package lease

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Lookup finds out from the history of an execution why leases of it are gone: the reasons
// by activity, without those of which history says nothing. of names the execution; its
// Activity and Effect are not used.
type Lookup func(ctx context.Context, of Ref, activities []uint64) map[uint64]cancel.Cancelled

// lookupTime bounds the search for a reason. The context is not cancelled before it ends.
const lookupTimeout = time.Second

// seek has the reasons found of leases that are gone. The histories of several executions
// are read side by side, so that nobody waits for the reasons of others; and that of one
// is read for all that are waiting, for thousands may have been cancelled in one turn. The
// lock is held.
func (k *Keeper) lookupReasons(holds []*Hold) {
	if k.stopped {
		return
	}
	for _, h := range holds {
		of := Ref{Part: h.Part, Instance: h.Instance, Execution: h.Execution}
		waiting, sought := k.unexplained[of]
		k.unexplained[of] = append(waiting, h)
		if !sought {
			k.wg.Go(func() { k.lookupExecution(of) })
		}
	}
}

func (k *Keeper) lookupExecution(of Ref) {
	for {
		k.mu.Lock()
		holds := k.unexplained[of]
		if len(holds) == 0 {
			delete(k.unexplained, of)
			k.mu.Unlock()
			return
		}
		k.unexplained[of] = nil
		k.mu.Unlock()
		k.cancelWithReasons(of, holds)
	}
}

// explain cancels leases of one execution that are gone, with what history says about each.
func (k *Keeper) cancelWithReasons(of Ref, holds []*Hold) {
	ctx, stop := context.WithTimeoutCause(k.ctx, lookupTimeout, errors.New("no reason found in time"))
	defer stop()
	activities := make([]uint64, len(holds))
	for i, h := range holds {
		activities[i] = h.Activity
	}
	reasons := k.lookup(ctx, of, activities)
	for _, h := range holds {
		why, ok := reasons[h.Activity]
		if !ok {
			why = cancel.Cancelled{Reason: cancel.LeaseLost, Text: "the lease is gone; history gives no reason"}
		}
		k.cancelHold(h, &why)
	}
}
