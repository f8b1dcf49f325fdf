package shard

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/timers"
)

// step is a job that consists of functions.
type step struct{ run, abandoned, ended func() }

func (s step) work()    { s.run() }
func (s step) done()    { s.ended() }
func (s step) late()    { s.ended() }
func (s step) blocked() { s.abandoned() }

// An eviction queued after a turn evicts the code that the turn returns, unless the turn was abandoned. It must therefore not run before
// the abandonment is complete.
func TestJobAfterABlockedJobRunsOnceThatIsAbandoned(t *testing.T) {
	defer goleak.VerifyNone(t)
	turns := newTurner(timers.NewTicker(watchTick))
	var ran, early atomic.Bool
	began, release, late := make(chan struct{}), make(chan struct{}), make(chan struct{})
	turns.do(step{
		run: func() { close(began); <-release },
		abandoned: func() {
			for range 1000 {
				runtime.Gosched()
			}
			early.Store(ran.Load())
		},
		ended: func() { close(late) },
	})
	<-began
	turns.do(step{run: func() { ran.Store(true) }, ended: func() {}})
	turns.tick(1)
	turns.close()
	if early.Load() || !ran.Load() {
		t.Errorf("the next job ran before the blocked one was abandoned: %t; at all: %t", early.Load(), ran.Load())
	}
	close(release)
	<-late
}

// TestTurnsThatReadManyLargePayloadsRunOneAfterTheOther bounds memory: the payloads that a replay reads stay in memory until its turn ends. With one slot,
// the second large turn waits until the first one has ended or is abandoned; a small turn does not wait.
func TestTurnsThatReadManyLargePayloadsRunOneAfterTheOther(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			slots, end := make(chan struct{}, 1), make(chan struct{})
			ticks := timers.NewTicker(watchTick)
			first, second, small := newTurner(ticks), newTurner(ticks), newTurner(ticks)
			var reading [3]atomic.Bool
			read := func(turns *turner, n, bytes int, until chan struct{}) {
				turns.do(step{
					run: func() {
						for range 3 { // a turn takes at most one slot
							if err := turns.enlarge(t.Context(), slots, bytes/2); err != nil {
								t.Error(err)
							}
						}
						reading[n].Store(true)
						<-until
					},
					abandoned: func() {}, ended: func() {},
				})
				synctest.Wait()
			}
			over := make(chan struct{})
			close(over)
			read(first, 0, smallTurn, end)
			read(second, 1, smallTurn, over)
			read(small, 2, smallTurn/2, over)
			if !reading[0].Load() || reading[1].Load() || !reading[2].Load() {
				t.Errorf("reading: first %t, second %t, small %t", reading[0].Load(), reading[1].Load(), reading[2].Load())
			}
			if blocks {
				first.tick(1)
			} else {
				close(end)
			}
			synctest.Wait()
			if !reading[1].Load() {
				t.Error("the second turn still waits")
			}
			if blocks {
				close(end)
			}
			for _, turns := range []*turner{first, second, small} {
				turns.close()
			}
			synctest.Wait()
			if len(slots) != 0 {
				t.Errorf("%d slots are not released", len(slots))
			}
		})
	}
}

// While no turn runs, the watchdog does not wake up the process; it watches a turn that begins later.
func TestWatchdogStopsWhileThereIsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurners(time.Second)
		turns := newTurner(all.ticks)
		all.add(turns)
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() { all.watch(ctx); close(watched) }()
		ticks := func() int {
			turns.mu.Lock()
			defer turns.mu.Unlock()
			return turns.ticks
		}
		<-time.After(time.Minute)
		if n := ticks(); n != 0 {
			t.Errorf("%d ticks without a turn", n)
		}
		for range 2 {
			blocked, release := make(chan struct{}), make(chan struct{})
			turns.do(step{run: func() { <-release }, abandoned: func() { close(blocked) }, ended: func() {}})
			<-blocked
			close(release)
			synctest.Wait()
			before := ticks()
			<-time.After(time.Minute)
			if n := ticks() - before; n > 1 {
				t.Errorf("%d ticks after a turn", n)
			}
		}
		turns.close()
		stop()
		<-watched
	})
}
