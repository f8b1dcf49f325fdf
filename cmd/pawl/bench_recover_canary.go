package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/examples"
)

const (
	canaryEvery  = 5 * time.Millisecond
	canaryLimit  = 90 * time.Second       // after which an instance counts as lost
	canaryGiveUp = 30 * time.Second       // with a fleet that does not recover
	canaryQuiet  = 300 * time.Millisecond // an instance that takes longer waits for a recovery
	canaryRuns   = 1500 * time.Millisecond
	longCanaries = 16
	canaryWindow = time.Second // of instances that are started after the fault, at least
)

// canary is one instance of one activity that was started while a fault was injected.
type canary struct {
	began, ended time.Time
	runs         time.Duration // what its activity takes
	err          error         // of the client's call; nil once the result was read
}

// canaries starts one instance after another, at a fixed pace, and records how long each took. Stop joins them.
type canaries struct {
	b    *bench
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	waiting map[*canary]struct{}
	done    []*canary
}

func startCanaries(ctx context.Context, b *bench, every time.Duration) *canaries {
	ctx, stop := context.WithCancel(ctx)
	cs := &canaries{b: b, stop: stop, waiting: make(map[*canary]struct{})}
	cs.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				cs.start(context.WithoutCancel(ctx), b.scenario("hello", 1), 0)
			case <-ctx.Done():
				return
			}
		}
	})
	return cs
}

// start starts an instance of one activity, which runs for so long.
func (cs *canaries) start(ctx context.Context, sc scenario, runs time.Duration) {
	c := &canary{began: time.Now(), runs: runs}
	cs.mu.Lock()
	cs.waiting[c] = struct{}{}
	cs.mu.Unlock()
	cs.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, canaryLimit)
		defer cancel()
		finish, err := sc.begin(ctx, cs.b.id("canary"))
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

// long starts instances that are under way when the fault comes, on every worker.
func (cs *canaries) long(ctx context.Context) {
	for range longCanaries {
		runs := int(canaryRuns.Milliseconds())
		cs.start(context.WithoutCancel(ctx), plain(cs.b, "long", 1, 1, examples.Race, examples.Times{Hare: runs, Tortoise: 2 * runs}), canaryRuns)
	}
}

// oldest returns when the oldest instance that still waits was started; now if none waits. Those that were started before a
// moment do not count.
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

// recovered waits until instances have been started for a while after the fault and none waits for long, of all or of those
// that were started after the fault.
func (cs *canaries) recovered(ctx context.Context, fault time.Time, all bool) error {
	since := fault
	if all {
		since = time.Time{}
	}
	return until(ctx, func() bool {
		return time.Since(fault) > canaryWindow && time.Since(cs.oldest(since)) < canaryQuiet
	})
}

// end starts no more, waits for all, and returns them in the order of their start.
func (cs *canaries) end() []*canary {
	cs.stop()
	cs.wg.Wait()
	slices.SortFunc(cs.done, func(a, b *canary) int { return a.began.Compare(b.began) })
	return cs.done
}

// until polls a condition for at most 30 s.
func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, canaryGiveUp)
	defer cancel()
	tick := time.NewTicker(canaryEvery)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
