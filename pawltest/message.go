package pawltest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// What instances tell each other is as in docs/decisions/0013: each message is an input of
// whom it concerns. Here it is neither lost nor repeated, arrives at the instant at which
// it was sent, and in the order in which it was decided.

// letter is an input on its way to an instance.
type letter struct {
	to   string
	ev   history.Event
	sent history.Event // EventSent or ChildScheduled: what has decided it; nil: something else has, or the test
	at   int64         // Unix milliseconds, while it is kept

	number uint64 // among mail and runs
	opens  bool   // it is the start that comes with an event
}

// keptFor is how long an event waits for an instance to start.
const keptFor = 24 * time.Hour

// deliver gives a letter to whom it is for.
func (e *Env) deliver(l letter) {
	e.tb.Helper()
	if s, ok := l.ev.(*history.Started); ok {
		e.start(l, s)
		return
	}
	in := e.byID[l.to]
	if in != nil {
		e.inputs = append(e.inputs, l)
		return
	}
	if c, ok := l.ev.(*history.CancelRequested); ok && c.Of == "" {
		return // nobody is there whom somebody outside could cancel
	}
	e.keep(l)
}

func (e *Env) keep(l letter) {
	l.at = e.now
	e.kept = append(e.kept, l)
}

// start begins an instance, and hands it what has come before it; or says whose the id is.
func (e *Env) start(l letter, s *history.Started) {
	e.tb.Helper()
	in := e.byID[l.to]
	switch {
	case in == nil && l.opens && !e.code.knows(s.Name): // the business of another fleet: the event tells of it
		return
	case in == nil && s.Parent == nil && l.sent != nil && !e.code.knows(s.Name):
		e.keep(l) // the business of another fleet
		return
	case in == nil:
	case s.Parent == nil, in.parent != nil && *in.parent == *s.Parent:
		return // a second start is harmless
	default:
		e.mailed(letter{to: s.Parent.Instance, ev: &history.ChildFailed{
			Scheduled: s.Parent.Event, Effect: s.Parent.Effect, Failure: taken(l.to),
		}})
		return
	}
	e.born++
	s.Execution, s.Origin = 1, history.Position{Seq: e.born, Time: e.now * int64(time.Millisecond)}
	in = &instance{e: e, id: l.to, parent: s.Parent}
	in.begin(s)
	e.byID[in.id] = in
	e.instances, e.live = append(e.instances, in), append(e.live, in)
	e.inputs = append(e.inputs, l)
	e.kept = slices.DeleteFunc(e.kept, func(k letter) bool {
		if k.to != in.id || time.Duration(e.now-k.at)*time.Millisecond > keptFor {
			return false
		}
		e.inputs = append(e.inputs, k)
		return true
	})
}

// mailed puts a letter behind those that are on their way.
func (e *Env) mailed(l letter) {
	e.sent++
	l.number = e.sent
	e.mail = append(e.mail, l)
}

func taken(id string) history.Failure {
	return history.Failure{
		Code: history.CodeIDTaken, Permanent: true,
		Message: fmt.Sprintf("instance %s exists already and is not this instance's child; give the child another id, or none", id),
	}
}

// post sends what a turn has decided: runs of activities, and what others are told, in the
// order of the decisions.
func (in *instance) post(made []history.Event) {
	e, state := in.e, &in.now().state
	e.tb.Helper()
	told := slices.Clone(state.PendingMessages())
	for _, ev := range made {
		switch ev := ev.(type) {
		case *history.ActivityScheduled:
			if state.Activity(ev.ID) != nil {
				e.schedule(run{in: in, activity: ev, step: e.step(ev.Name)})
			}
		case *history.ActivityCancelRequested:
			e.drop(in, ev.Scheduled)
		case *history.ChildScheduled:
			switch {
			case ev.Abandon || ev.Detached: // among the messages
			case state.Child(ev.ID) != nil:
				told = append(told, history.Message{ID: ev.ID, Event: ev})
			default: // cancelled in the same turn: it is never started, and there is nobody to tell
				told = slices.DeleteFunc(told, func(m history.Message) bool { return m.Cancel != nil && m.Cancel.ID == ev.ID })
			}
		default: // nothing for the world to do, or among the messages
		}
	}
	slices.SortStableFunc(told, func(a, b history.Message) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range told {
		in.tell(m)
	}
	state.TrimAcked(state.Len)
}

// drop forgets a run that nobody wants any more, and says whether it was there.
func (e *Env) drop(in *instance, scheduled uint64) bool {
	n := len(e.runs)
	e.runs = slices.DeleteFunc(e.runs, func(r run) bool { return r.of(in, scheduled) })
	return len(e.runs) < n
}

func (in *instance) tell(m history.Message) {
	e := in.e
	e.tb.Helper()
	send := e.mailed
	switch ev := m.Event.(type) {
	case *history.EventSent:
		if s := ev.Start; s != nil {
			send(letter{to: ev.Instance, opens: true, ev: &history.Started{Name: s.Name, Version: s.Version, Payload: s.Payload, By: in.id}})
		}
		send(letter{to: ev.Instance, sent: ev, ev: &history.EventReceived{Name: ev.Name, Payload: ev.Payload, MsgID: ev.Effect, By: in.id}})
	case *history.ChildScheduled:
		if step, put := e.putOff(ev); put {
			e.schedule(run{in: in, child: ev, step: step})
			return
		}
		send(in.start(ev))
	case *history.ChildCancelRequested:
		if e.drop(in, ev.Scheduled) {
			return // it has not started
		}
		send(letter{to: m.Cancel.Instance, ev: &history.CancelRequested{
			By: cmp.Or(ev.By, in.id), Text: ev.Text, Reason: ev.Reason, Of: m.Cancel.Effect,
		}})
	case *history.Completed:
		send(in.done(&history.ChildCompleted{Result: ev.Result}))
	case *history.Failed:
		send(in.done(&history.ChildFailed{Failure: ev.Failure}))
	case *history.Cancelled:
		send(in.done(&history.ChildFailed{Failure: ev.Failure}))
	default:
		in.failf("a history has no message like %T", ev)
	}
}

// putOff gives the step of a child's script if it does not start at once.
func (e *Env) putOff(c *history.ChildScheduled) (Step, bool) {
	if c.Detached {
		return Step{}, false
	}
	s := e.step(c.Name)
	return s, s.err != nil || s.never || s.after > 0
}

// start is the start of a child, or of an instance that is nobody's.
func (in *instance) start(c *history.ChildScheduled) letter {
	s := &history.Started{Name: c.Name, Version: c.Version, Payload: c.Payload, By: in.id}
	if !c.Detached {
		id := in.now().id
		s.Parent = &history.Parent{Instance: in.id, Origin: id.Origin, Execution: id.Execution, Event: c.ID, Effect: c.Effect}
	}
	return letter{to: c.Instance, ev: s, sent: c}
}

// done is the end of an instance, for its parent.
func (in *instance) done(ev history.Event) letter {
	p := in.parent
	switch ev := ev.(type) {
	case *history.ChildCompleted:
		ev.Scheduled, ev.Effect = p.Event, p.Effect
	case *history.ChildFailed:
		ev.Scheduled, ev.Effect = p.Event, p.Effect
	}
	return letter{to: p.Instance, ev: ev}
}
