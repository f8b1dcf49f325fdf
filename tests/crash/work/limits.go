package work

import (
	"context"
	"os"
	"time"

	"github.com/pawlrun/pawl"
)

// Slots is the number of slots of Limited, and of LimitedRun.
const Slots = 2

// The limited actions and their callers. A Caller makes several calls of Limited at once. A RetainingCaller makes one and retains its
// slot. A LimitedRun takes two executions. All of them hold their slots until ReleaseHolders.
var (
	Caller          = pawl.NewOrchestration[int, int]("caller")
	RetainingCaller = pawl.NewOrchestration[int, int]("retaining-caller")
	LimitedRun      = pawl.NewOrchestration[int, int]("limited-run", pawl.Concurrency(Slots))
	Limited         = pawl.NewActivity[int, int]("limited", pawl.Concurrency(Slots))
	Record          = pawl.NewActivity[string, pawl.None]("record")
)

// First words of the ledger lines of a holder.
const (
	LimitedAdmitted    = "limited-admitted"
	LimitedReleased    = "limited-released"
	LimitedRunAdmitted = "limited-run-admitted"
	LimitedRunReleased = "limited-run-released"
)

// caller returns the number of calls that have ended.
func caller(ctx *pawl.Context, calls int) (int, error) {
	all := make([]*pawl.Future[int], calls)
	for i := range all {
		all[i] = Limited.Start(ctx, i)
	}
	done, err := pawl.All(ctx, all...)
	return len(done), err
}

// retainingCaller cancels its call at the first Go, and ends at the second.
func retainingCaller(ctx *pawl.Context, n int) (int, error) {
	if _, err := pawl.Select(ctx, Limited.Start(ctx, n, pawl.Retry{Attempts: 2}, pawl.KeepSlot()), Go.Next(ctx)); err != nil {
		return 0, err
	}
	return Go.Receive(ctx)
}

// limitedRun returns the number of its executions.
func limitedRun(ctx *pawl.Context, before int) (int, error) {
	if before > 0 {
		_, err := Record.Call(ctx, LimitedRunReleased)
		return before + 1, err
	}
	if _, err := Record.Call(ctx, LimitedRunAdmitted); err != nil {
		return 0, err
	}
	return LimitedRun.ContinueAsNew(ctx, 1)
}

func limitedBindings() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{Caller.Do(caller), RetainingCaller.Do(retainingCaller), LimitedRun.Do(limitedRun)}
}

// ReleaseHolders lets all holders end, present and future.
func (l Ledger) ReleaseHolders() error { return os.WriteFile(l.releaseFile(), nil, 0o600) }

func (l Ledger) releaseFile() string { return string(l) + ".release" }

// wait waits for ReleaseHolders.
func (l Ledger) wait(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond) // also the time that a later holder keeps its slot
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, err := os.Stat(l.releaseFile()); err == nil {
			return nil
		}
	}
}

func (l Ledger) limited(ctx context.Context, n int) (int, error) {
	if err := l.write(ctx, LimitedAdmitted); err != nil {
		return 0, err
	}
	if err := l.wait(ctx); err != nil {
		return 0, err
	}
	return n, l.write(ctx, LimitedReleased)
}

func (l Ledger) record(ctx context.Context, what string) (pawl.None, error) {
	if err := l.write(ctx, what); err != nil {
		return pawl.None{}, err
	}
	return pawl.None{}, l.wait(ctx)
}
