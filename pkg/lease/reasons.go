package lease

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Lookup finds in the history of an execution why leases are gone: the causes by activity, without those that history does not
// have. of names the execution; its Activity and Effect are not used.
type Lookup func(ctx context.Context, of Ref, activities []uint64) map[uint64]cancel.Cancelled

// lookupTimeout bounds the search for a cause. The context is not cancelled before it ends.
const lookupTimeout = time.Second

// lookupReasons looks up why leases are gone. The histories of different executions are read in parallel, so that none waits for
// another; that of one is read once for all its waiting leases, because thousands may have been cancelled in one turn. The lock
// is held.
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

// cancelWithReasons cancels leases of one execution that are gone, with the cause that history has for each.
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
