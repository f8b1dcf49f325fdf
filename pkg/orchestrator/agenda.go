package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/pkg/history/store"
)

const (
	pollEvery = time.Second            // the agenda is read at least so often
	pollGap   = 250 * time.Millisecond // and, for what memory does not know, at most so often
	pollFull  = 10 * time.Millisecond  // but sooner if there were more than one poll takes
	dueBatch  = 256
)

// poll asks the agenda who is due.
func (a *actor) poll() {
	if a.polling {
		a.pollAgain = true
		return
	}
	a.polling = true
	a.checkHorizon()
	a.store.Due(a.st, dueBatch, func(d store.DueSet, err error) {
		a.box.post(func() {
			a.polling = false
			if a.pollAgain {
				a.pollAgain = false
				a.pollBy(time.Now())
			}
			if err != nil {
				a.failed("due", err)
				return
			}
			a.heard(d.Now)
			if d.Next != 0 {
				gap := pollGap
				if len(d.Instances) == dueBatch { // thousands of stalled ones must not keep a neighbour's timer waiting
					gap = pollFull
				}
				a.pollBy(time.Now().Add(max(time.Duration(d.Next-d.Now)*time.Millisecond, gap)))
			}
			for _, id := range d.Instances {
				a.lookAt(id)
			}
			if d.NextLimit != 0 {
				gap := pollGap
				if len(d.Limits) == dueBatch {
					gap = pollFull
				}
				a.pollBy(time.Now().Add(max(time.Duration(d.NextLimit-d.Now)*time.Millisecond, gap)))
			}
			for _, name := range d.Limits {
				a.lookGate(name)
			}
		})
	})
}

// pollBy brings the next poll forward.
func (a *actor) pollBy(t time.Time) {
	if t.Before(a.pollAt) {
		a.pollAt = t
	}
}

// lookAt makes somebody look at the instance.
func (a *actor) lookAt(id string) {
	in := a.instance(id)
	if in.busy { // a commit or look under way sets the next look; a load does not
		in.look = in.look || !in.loaded
		return
	}
	in.look = true
	a.advance(in)
}

// work begins looks that a takeover or a loss of tasks has found, a bounded number at a time.
func (a *actor) work() {
	for len(a.todo) > 0 && a.busy < 32 && !a.leaving {
		id := a.todo[0]
		a.todo = a.todo[1:]
		in := a.instance(id)
		in.look = true // also of one that is busy: what is under way may set a look that is far away
		a.advance(in)
	}
}

// takeOver finds what must be looked at at once: what is stalled, for this process
// may have what it lacks, and, if the last owner has died, everything that it may have
// left unsent.
func (a *actor) takeOver() error {
	ctx, stop := context.WithTimeout(a.ctx, a.cfg.Look)
	defer stop()
	ids, err := a.store.StalledIDs(ctx, a.st.Part)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	for some := range slices.Chunk(ids, stuckMost) {
		stuck, err := a.store.StalledReasons(ctx, a.st.Part, some)
		if err != nil {
			return fmt.Errorf("take over: %w", err)
		}
		for id, why := range stuck {
			a.stalls[id] = parseStall(why)
			a.forced[id] = true
			a.todo = append(a.todo, id)
		}
	}
	// What a worker pushed during the hand-over has nobody who heard its doorbell: its look is
	// at most two seconds ahead, and is brought forward here.
	span := firstPause
	if !a.tenure.Clean || a.lost.within(a.cfg.Look) {
		span += a.cfg.Look
	}
	now, due, err := a.store.Wakeups(ctx, a.st.Part, span)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	if !a.tenure.Clean {
		a.doubted = now
	}
	a.heard(now) // before the first timer is judged: this process' own clock may be ahead
	a.todo = append(a.todo, due...)
	a.askHorizon(0)
	return nil
}
