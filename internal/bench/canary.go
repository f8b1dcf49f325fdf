package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/examples"
)

const (
	canaryInterval  = 5 * time.Millisecond
	canaryTimeout   = 90 * time.Second       // after which an instance counts as lost
	recoveryTimeout = 30 * time.Second       // for a fleet to recover
	canaryFast      = 300 * time.Millisecond // an instance that takes longer waits for a recovery
	canaryRuns      = 1500 * time.Millisecond
	longCanaries    = 16
	canaryWindow    = time.Second // minimum during which instances are started after the fault
)

// canary is one instance of one activity that was started around the time of a fault.
type canary struct {
	began, ended time.Time
	runs         time.Duration // of its activity
	err          error         // of the client's call; nil once the result was received
}

// canaries starts instances at a fixed rate, and records how long each took. stop ends the starts; end joins.
type canaries struct {
	d    *driver
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	waiting map[*canary]struct{}
	done    []*canary
}

func startCanaries(ctx context.Context, d *driver, sc scenario, interval time.Duration) *canaries {
	ctx, stop := context.WithCancel(ctx)
	cs := &canaries{d: d, stop: stop, waiting: make(map[*canary]struct{})}
	cs.wg.Go(func() {
		tick := time.NewTicker(max(interval, loadTick))
		defer tick.Stop()
		began, started := time.Now(), time.Duration(0)
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			for due := time.Since(began) / interval; started < due; started++ { // also of the ticks that were missed
				cs.start(context.WithoutCancel(ctx), sc, 0)
			}
		}
	})
	return cs
}

// start starts an instance of one activity, which runs for a duration.
func (cs *canaries) start(ctx context.Context, sc scenario, runs time.Duration) {
	c := &canary{began: time.Now(), runs: runs}
	cs.mu.Lock()
	cs.waiting[c] = struct{}{}
	cs.mu.Unlock()
	cs.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
		defer cancel()
		finish, err := sc.begin(ctx, cs.d.id("canary"))
		if err == nil {
			err = finish(ctx)
		}
		cs.mu.Lock()
		defer cs.mu.Unlock()
		c.err, c.ended = err, time.Now()
		delete(cs.waiting, c)
		cs.done = append(cs.done, c)
	})
}

// startLong starts instances that are under way at the time of the fault, on every worker.
func (cs *canaries) startLong(ctx context.Context) {
	for range longCanaries {
		runs := int(canaryRuns.Milliseconds())
		cs.start(context.WithoutCancel(ctx), plain(cs.d, "long", 1, 1, examples.Race, examples.Times{Hare: runs, Tortoise: 2 * runs}), canaryRuns)
	}
}

// oldest returns when the oldest waiting instance was started; now if none waits. Those that were started before since are
// not counted.
func (cs *canaries) oldest(since time.Time) time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	t := time.Now()
	for c := range cs.waiting {
		if c.began.Before(since) {
			continue
		}
		if due := c.began.Add(c.runs); due.Before(t) {
			t = due
		}
	}
	return t
}

// awaitRecovery waits until instances have been started for a while after the fault and none waits for long, of all or of
// those that were started after the fault.
func (cs *canaries) awaitRecovery(ctx context.Context, fault time.Time, all bool) error {
	since := fault
	if all {
		since = time.Time{}
	}
	return until(ctx, func() bool {
		return time.Since(fault) > canaryWindow && time.Since(cs.oldest(since)) < canaryFast
	})
}

// end stops the starts, waits for all instances, and returns them in the order of their start.
func (cs *canaries) end() []*canary {
	cs.stop()
	cs.wg.Wait()
	slices.SortFunc(cs.done, func(a, b *canary) int { return a.began.Compare(b.began) })
	return cs.done
}
