package pawltest

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/stacks"
)

// Orchestration code that takes longer than blockedAfter, and does not move in blockedSamples samples, blocks.
const (
	blockedAfter   = time.Second
	blockedEvery   = 100 * time.Millisecond
	blockedSamples = 5
	labelTurn      = "pawltest" // profiler label of the goroutines that run orchestration code
)

// guards numbers the values of labelTurn.
var guards atomic.Uint64

// guard runs orchestration code and detects that it blocks.
type guard struct{ label string }

func newGuard() guard { return guard{label: strconv.FormatUint(guards.Add(1), 10)} }

// blockedError reports orchestration code that blocks. Without it the test would not end.
type blockedError struct{ stack string }

func (e *blockedError) Error() string {
	return "orchestration code blocks: it loops, or waits for something other than Pawl's futures; its goroutine is left behind\n" + e.stack
}

// run runs f on a goroutine of its own. The coroutines that it starts inherit the label. It returns a *blockedError if the code blocks;
// f then still runs.
func (g guard) run(f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelTurn, g.label)))
		f()
	}()
	timer := time.NewTimer(blockedAfter)
	defer timer.Stop()
	for last, same := "", 0; ; {
		select {
		case <-done:
			return nil
		case <-timer.C:
		}
		stack := stacks.ByLabel(labelTurn, "replay.(*strand).park", "pawltest.guard.run")[g.label]
		if stack != "" && stack == last {
			same++
		} else {
			last, same = stack, 0
		}
		if same == blockedSamples {
			return &blockedError{stack: stack}
		}
		timer.Reset(blockedEvery)
	}
}
