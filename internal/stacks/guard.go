package stacks

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"
)

// A call that takes longer than a second blocks if its stacks are equal in five samples.
const (
	blockedAfter   = time.Second
	blockedEvery   = 100 * time.Millisecond
	blockedSamples = 5
	labelGuard     = "pawl.guard" // profiler label of the goroutines that run guarded calls
)

// guards numbers the values of labelGuard.
var guards atomic.Uint64

// Guard runs calls and detects that one blocks. The zero value is not valid.
type Guard struct{ label string }

// NewGuard returns a guard whose goroutines have a label of their own.
func NewGuard() Guard { return Guard{label: strconv.FormatUint(guards.Add(1), 10)} }

// Run runs f on a goroutine of its own, whose label the goroutines that it starts get, too. If f blocks, it returns the stacks, and f
// still runs. Goroutines that have a frame of one of the excluded functions do not count: they wait for f.
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
