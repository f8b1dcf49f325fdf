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
	canaryTimeout   = 90 * time.Second        // after which an instance counts as lost
	recoveryTimeout = 30 * time.Second        // maximum time for a fleet to recover
	canaryFast      = 300 * time.Millisecond  // an instance that takes longer is waiting for a recovery
	canaryRuns      = 1500 * time.Millisecond // duration of the activity of a long canary
	longCanaries    = 16
	canaryWindow    = time.Second // minimum time for which instances are started after the fault
)

// canary is one instance of one activity, started around the time of a fault.
type canary struct {
	began, ended time.Time
	runs         time.Duration // duration of its activity
	err          error         // error of the client's call; nil if the result was received
}

// canaries starts instances at a fixed rate, and records how long each takes. stop ends the starts; end also waits for the instances.
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
		_ = every(ctx, interval, func() error { cs.start(context.WithoutCancel(ctx), sc, 0); return nil })
	})
	return cs
}

// start starts an instance of one activity that runs for a duration.
func (cs *canaries) start(ctx context.Context, sc scenario, runs time.Duration) {
	c := &canary{began: time.Now(), runs: runs}
	cs.mu.Lock()
	cs.waiting[c] = struct{}{}
	cs.mu.Unlock()
	cs.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
		defer cancel()
		err := sc.run(ctx, cs.d.id("canary"))
		cs.mu.Lock()
		defer cs.mu.Unlock()
		c.err, c.ended = err, time.Now()
		delete(cs.waiting, c)
		cs.done = append(cs.done, c)
	})
}

// startLong starts instances whose activities run, on every worker, when the fault is injected.
func (cs *canaries) startLong(ctx context.Context) {
	for range longCanaries {
		runs := int(canaryRuns.Milliseconds())
		cs.start(context.WithoutCancel(ctx), plain(cs.d, "long", 1, 1, examples.Race, examples.Times{Hare: runs, Tortoise: 2 * runs}), canaryRuns)
	}
}

// oldest returns the earliest time at which a waiting instance could have ended, or now if none waits. Instances that were started
// before since do not count.
func (cs *canaries) oldest(since time.Time) time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	t := time.Now()
	for c := range cs.waiting {
		if due := c.began.Add(c.runs); !c.began.Before(since) && due.Before(t) {
			t = due
		}
	}
	return t
}

// awaitRecovery waits until instances have been started for canaryWindow after the fault and none of them waits for long. With all, this
// includes the instances that were started before the fault.
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
