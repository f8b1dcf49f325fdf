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

// activityTimeout is how long an activity may run in real time.
const activityTimeout = time.Minute

// worker is the name of the worker that runs all activities.
const worker = "test"

// work holds the activities in progress, and the children whose start or failure their script delays.
type work struct {
	env     *world
	scripts map[string][]Step
	runs    []run
	number  uint64          // number of the last run
	started map[string]bool // effect ids of the child starts already scheduled
}

// run is an activity in progress or a delayed child.
type run struct {
	claim    memstore.Claim
	activity *history.ActivityScheduled
	child    *message.OutInput
	step     Step
	due      int64 // Unix ms; math.MaxInt64 means never
	number   uint64
}

// schedule adds a run.
func (w *work) schedule(r run) {
	r.due = math.MaxInt64
	if !r.step.never {
		r.due = w.env.part.Now + r.step.after.Milliseconds()
	}
	w.number++
	r.number = w.number
	w.runs = append(w.runs, r)
}

// dispatch makes the worker claim an activity and schedules its run. After a crash, an activity that is already claimed is dispatched
// again.
func (w *work) dispatch(e *core.Effect) {
	g := memstore.Claim{Instance: e.ID, Execution: e.Rec.Execution, Activity: e.Activity.ID, Effect: e.Activity.Effect, Token: strconv.FormatUint(w.number+1, 10)}
	if a, _ := w.env.part.Store.Claim(w.env.part.Now, g, worker); a == memstore.Acquired {
		w.schedule(run{claim: g, activity: e.Activity, step: w.step(e.Activity.Name)})
	}
}

// holds reports whether the result of the run is still required.
func (w *work) holds(r *run) bool {
	if r.child != nil {
		return true
	}
	l, ok := w.env.part.Store.Get(r.claim.Instance).Leases[memstore.Place{Execution: r.claim.Execution, Event: r.claim.Activity}]
	return ok && l.Effect == r.claim.Effect && l.Token == r.claim.Token
}

// prune removes the runs of an instance whose leases are gone.
func (w *work) prune(instance string) {
	w.runs = slices.DeleteFunc(w.runs, func(r run) bool { return r.claim.Instance == instance && !w.holds(&r) })
}

// next returns the run that is due first, the one scheduled first if several are. ok is false if none will ever be due.
func (w *work) next() (i int, at int64, ok bool) {
	i, at = -1, math.MaxInt64
	for k := range w.runs {
		if w.runs[k].due < at {
			i, at = k, w.runs[k].due
		}
	}
	return i, at, i >= 0
}

// finish runs and acknowledges an activity that is due, or starts or fails a child that is due.
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
	if a, pushed, first := e.part.Store.Complete(e.part.Now, r.claim, end); a == memstore.OK && first {
		doorbell := message.Doorbell{Instance: r.claim.Instance, Effect: r.claim.Effect, Element: pushed}
		e.part.post(core.Message{Kind: core.DoorbellsReceived, Doorbells: []message.Doorbell{doorbell}})
	}
}

func (w *work) call(r *run) (history.Payload, *history.Failure) {
	s := r.activity
	a, ok := w.env.code.registry.Activity(s.Name)
	if !ok {
		w.env.failf(r.claim.Instance, "activity %s is neither bound nor faked", s.Name)
	}
	ctx, stop := context.WithTimeout(context.Background(), activityTimeout)
	defer stop()
	return a.Handle(pawl.WithInfo(ctx, pawl.ActivityInfo{
		Instance: r.claim.Instance, Execution: r.claim.Execution, Activity: s.ID, Name: s.Name, Queue: s.Queue,
		Worker: worker, Attempt: s.Attempt, Claim: 1, Key: s.CallKey(), AttemptKey: s.Effect,
	}), s.Payload)
}

// start accepts the start of a child, at once or as set by its script. After a crash, a start may come again although it is already in the
// stream.
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

// stop removes the delayed start of a child, and reports whether there was one.
func (w *work) stop(effect string) bool {
	n := len(w.runs)
	w.runs = slices.DeleteFunc(w.runs, func(r run) bool { return r.child != nil && r.child.Parent.Effect == effect })
	return len(w.runs) < n
}
