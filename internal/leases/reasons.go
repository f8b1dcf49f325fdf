package leases

import (
	"context"
	"errors"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Lookup searches the history of an execution for the reasons why leases are gone. It returns the causes by activity, without the
// activities for which the history records none. Only the instance and execution of of are set.
type Lookup func(ctx context.Context, of Ref, activities []uint64) map[uint64]cancel.Cancelled

// lookupTimeout bounds the search for a cause. The context of the lease is cancelled after the search.
const lookupTimeout = time.Second

// lookupReasons looks up why leases are gone, and then cancels their contexts. The histories of different executions are read in
// parallel, so that they do not delay each other. The history of one execution is read once for all its waiting leases, because one turn
// may have cancelled thousands of them. The caller holds the lock.
func (k *Keeper) lookupReasons(holds []*Hold) {
	if k.stopped {
		return
	}
	for _, h := range holds {
		of := Ref{Part: h.Part, Instance: h.Instance, Execution: h.Execution}
		waiting, running := k.unexplained[of]
		k.unexplained[of] = append(waiting, h)
		if !running {
			k.wg.Go(func() { k.lookupExecution(of) })
		}
	}
}

// lookupExecution looks up reasons until no lease of the execution waits for one.
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

// cancelWithReasons cancels leases of one execution that are gone, each with the cause that the history records.
func (k *Keeper) cancelWithReasons(of Ref, holds []*Hold) {
	ctx, stop := context.WithTimeoutCause(k.ctx, lookupTimeout, errors.New("no reason found in time"))
	defer stop()
	activities := make([]uint64, len(holds))
	for i, h := range holds {
		activities[i] = h.Activity
	}
	reasons := k.lookup(ctx, of, activities)
	for _, h := range holds {
		cause, ok := reasons[h.Activity]
		if !ok {
			cause = cancel.Cancelled{Reason: cancel.LeaseLost, Text: "the lease is gone; history gives no reason"}
		}
		k.cancelHold(h, &cause)
	}
}
