package stacks

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"
)

// A call that takes longer than a second counts as blocked if five consecutive samples of its stacks are equal.
const (
	blockedAfter   = time.Second
	blockedEvery   = 100 * time.Millisecond
	blockedSamples = 5
	labelGuard     = "pawl.guard" // profiler label of the goroutines that run guarded calls
)

// guards is the last value of labelGuard.
var guards atomic.Uint64

// Guard runs calls and detects calls that block. The zero value is invalid; use NewGuard.
type Guard struct{ label string }

// NewGuard returns a guard with a unique value of the profiler label.
func NewGuard() Guard { return Guard{label: strconv.FormatUint(guards.Add(1), 10)} }

// Run runs f on a new goroutine and waits for it. Goroutines that f starts have the same label. If f blocks, Run returns the stacks of
// these goroutines, and f continues to run. Goroutines with a frame of one of the excluded functions are ignored, because they wait for
// f.
func (g Guard) Run(f func(), exclude ...string) (stack string, blocked bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelGuard, g.label)))
		f()
	}()
	exclude = append(exclude, "stacks.Guard.Run")
	timer := time.NewTimer(blockedAfter)
	defer timer.Stop()
	for last, same := "", 0; ; {
		select {
		case <-done:
			return "", false
		case <-timer.C:
		}
		stack := ByLabel(labelGuard, exclude...)[g.label]
		if stack != "" && stack == last {
			same++
		} else {
			last, same = stack, 0
		}
		if same == blockedSamples {
			return stack, true
		}
		timer.Reset(blockedEvery)
	}
}
