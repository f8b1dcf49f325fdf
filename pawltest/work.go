package pawltest

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// activityTimeout is how long, by the real clock, an activity may run.
const activityTimeout = time.Minute

// worker is the one that runs all activities.
const worker = "test"

// work has the activities under way, and the children whose start or failure their script has put off.
type work struct {
	env     *world
	scripts map[string][]Step
	runs    []run
	number  uint64          // of the last run
	started map[string]bool // effect ids of the starts of children
}

// run is an activity under way, or a child that is put off.
type run struct {
	grip     memstore.Grip
	activity *history.ActivityScheduled
	child    *message.OutInput
	step     Step
	due      int64 // Unix ms; math.MaxInt64: never
	number   uint64
}

// schedule puts a run among those under way.
func (w *work) schedule(r run) {
	r.due = math.MaxInt64
	if !r.step.never {
		r.due = w.env.part.Now + r.step.after.Milliseconds()
	}
	w.number++
	r.number = w.number
	w.runs = append(w.runs, r)
}

// dispatch has the worker claim an activity. One that it has already claimed comes once more behind a crash.
func (w *work) dispatch(e *core.Effect) {
	g := memstore.Grip{Instance: e.ID, Execution: e.Rec.Execution, Activity: e.Activity.ID, Effect: e.Activity.Effect, Token: strconv.FormatUint(w.number+1, 10)}
	if a, _ := w.env.part.Store.Claim(w.env.part.Now, g, worker); a == memstore.Yours {
		w.schedule(run{grip: g, activity: e.Activity, step: w.step(e.Activity.Name)})
	}
}

// holds reports whether the result of the run is still required.
func (w *work) holds(r *run) bool {
	if r.child != nil {
		return true
	}
	l, ok := w.env.part.Store.Get(r.grip.Instance).Leases[memstore.Place{Execution: r.grip.Execution, Event: r.grip.Activity}]
	return ok && l.Effect == r.grip.Effect && l.Token == r.grip.Token
}

// prune forgets the activities of an instance whose leases are gone.
func (w *work) prune(instance string) {
	w.runs = slices.DeleteFunc(w.runs, func(r run) bool { return r.grip.Instance == instance && !w.holds(&r) })
}

// next is the run that is due first; of several, the one that was scheduled first. ok: one ever is.
func (w *work) next() (i int, at int64, ok bool) {
	i, at = -1, math.MaxInt64
	for k := range w.runs {
		if w.runs[k].due < at {
			i, at = k, w.runs[k].due
		}
	}
	return i, at, i >= 0
}

// finish runs an activity that is due and acknowledges it, or does what is due about a child.
func (w *work) finish(i int) {
	e := w.env
	r := w.runs[i]
	w.runs = slices.Delete(w.runs, i, i+1)
	var failure *history.Failure
	if r.step.err != nil {
		failure = author.ToFailure(r.step.err)
	}
	if c := r.child; c != nil {
		if failure != nil {
			c = &message.OutInput{
				Instance: c.Parent.Instance, Sender: message.SenderOrchestrator, Kind: message.KindDone,
				Done: &message.Done{Scheduled: c.Parent.Event, Effect: c.Parent.Effect, Failure: failure},
			}
		}
		e.part.accept(c)
		return
	}
	var result history.Payload
	if failure == nil {
		result, failure = w.call(&r)
	}
	var end history.Event = &history.ActivityCompleted{Scheduled: r.activity.ID, Result: result, Worker: worker, Claims: 1}
	if failure != nil {
		end = &history.ActivityFailed{Scheduled: r.activity.ID, Failure: *failure, Worker: worker, Claims: 1}
	}
	if a, pushed, first := e.part.Store.Complete(e.part.Now, r.grip, end); a == memstore.OK && first {
		bell := message.Doorbell{Instance: r.grip.Instance, Effect: r.grip.Effect, Element: pushed}
		e.part.post(core.Message{Kind: core.DoorbellsReceived, Bells: []message.Doorbell{bell}})
	}
}

func (w *work) call(r *run) (history.Payload, *history.Failure) {
	s := r.activity
	a, ok := w.env.code.registry.Activity(s.Name)
	if !ok {
		w.env.failf(r.grip.Instance, "activity %s is neither bound nor faked", s.Name)
	}
	ctx, stop := context.WithTimeout(context.Background(), activityTimeout)
	defer stop()
	return a.Handle(pawl.WithInfo(ctx, pawl.ActivityInfo{
		Instance: r.grip.Instance, Execution: r.grip.Execution, Activity: s.ID, Name: s.Name, Queue: s.Queue,
		Worker: worker, Attempt: s.Attempt, Claim: 1, Key: s.CallKey(), AttemptKey: s.Effect,
	}), s.Payload)
}

// start takes the start of a child: now, or as its script has it. A start that comes once more, behind a crash, is in the stream already.
func (w *work) start(c *message.OutInput) {
	if w.started[c.Parent.Effect] {
		return
	}
	w.started[c.Parent.Effect] = true
	s := w.step(c.Name)
	if s.err != nil || s.never || s.after > 0 {
		w.schedule(run{child: c, step: s})
		return
	}
	w.env.part.accept(c)
}

// stop forgets the start of a child that has been put off, and reports whether there was one.
func (w *work) stop(effect string) bool {
	n := len(w.runs)
	w.runs = slices.DeleteFunc(w.runs, func(r run) bool { return r.child != nil && r.child.Parent.Effect == effect })
	return len(w.runs) < n
}
