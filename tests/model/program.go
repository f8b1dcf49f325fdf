package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Program is an orchestration: it is told of each input that took effect and
// decides by the history alone. What it is told is "start", the id of a message, the
// payload of a completed activity, or "timer".
type Program func(p *Past, input string)

// Past is a history folded, and the turn that goes on from it.
//
// The events are strings: "in ID @time", "read ID", "do PAYLOAD", "done ID EFFECT", "off ID", "timer @time", "fired ID",
// "untimer ID", "tell WHAT", "poll", "observed", "again", "end". (That the code polls is in no real history: an owner that has not run
// the code does not know it. Here it is for the promises to see.) Their ids are their places, from one.
//
// The start of an execution names, besides the start of the first, the messages that the executions before have read:
// "in start+go @time". So each history tells of all that its instance has ever read, though the others are pruned.
type Past struct {
	Execution uint64
	Inputs    []string          // ids of the messages taken, in order, by this execution and those before it
	Unread    []Element         // of them, those that the program has not read
	Open      map[uint64]string // outstanding activities: effect id
	Timers    map[uint64]int64
	Polling   bool // the program waits for "observed"
	Ended     bool
	Now       int64 // of the last input: never the clock's
	again     bool  // it has ended, and the next execution begins
	turn      Turn
	n         uint64
	done      []string
}

// Fold reads the history of an execution. It reports what is wrong with it, if anything.
func Fold(execution uint64, history []string) (*Past, error) {
	p := &Past{Execution: execution, Open: map[uint64]string{}, Timers: map[uint64]int64{}}
	for _, e := range history {
		if p.Ended {
			return p, fmt.Errorf("%q stands after the end", e)
		}
		if err := p.apply(e); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *Past) apply(e string) error {
	p.n++
	w := strings.Fields(e)
	var ref uint64
	if len(w) > 1 {
		ref, _ = strconv.ParseUint(w[1], 10, 64)
	}
	switch w[0] {
	case "in":
		for id := range strings.SplitSeq(w[1], "+") {
			if slices.Contains(p.Inputs, id) {
				return fmt.Errorf("input %s is twice in history", id)
			}
			p.Inputs = append(p.Inputs, id)
		}
		p.Now = max(p.Now, stamp(w[2]))
		if p.n > 1 {
			p.Unread = append(p.Unread, Element{Kind: "event", Time: stamp(w[2]), Tag: w[1]})
		}
	case "read":
		p.Unread = slices.DeleteFunc(p.Unread, func(e Element) bool { return e.Tag == w[1] })
	case "do":
		p.Open[p.n] = p.effect(w[1])
	case "done":
		switch want, open := p.Open[ref]; {
		case !open:
			return fmt.Errorf("completion of activity %d, which is not outstanding", ref)
		case want != w[2]:
			return fmt.Errorf("completion of another timeline: activity %d is %s, not %s", ref, want, w[2])
		}
		p.done = append(p.done, strings.Split(w[2], "#")[0])
		delete(p.Open, ref)
	case "off":
		if _, open := p.Open[ref]; !open {
			return fmt.Errorf("cancellation of activity %d, which is not outstanding", ref)
		}
		delete(p.Open, ref)
	case "timer":
		p.Timers[p.n] = stamp(w[1])
	case "fired", "untimer":
		at, open := p.Timers[ref]
		if !open {
			return fmt.Errorf("%s: timer %d is not set", w[0], ref)
		}
		if w[0] == "fired" {
			p.Now = max(p.Now, at)
		}
		delete(p.Timers, ref)
	case "poll", "observed":
		p.Polling = w[0] == "poll"
	case "again", "end":
		p.Ended = true
	}
	return nil
}

// effect names what an event wants: birth, execution and place tell it from all others.
func (p *Past) effect(what string) string {
	e := what + "#" + strconv.FormatUint(p.n, 10)
	if p.Execution > 1 {
		e += "/" + strconv.FormatUint(p.Execution, 10)
	}
	if len(p.Inputs) > 0 && p.Inputs[0] != "start" { // another birth
		e += "^" + p.Inputs[0]
	}
	return e
}

func stamp(w string) int64 { t, _ := strconv.ParseInt(w[1:], 10, 64); return t }

// Did reports whether an activity of that payload has completed.
func (p *Past) Did(payload string) bool { return slices.Contains(p.done, payload) }

// Took reports whether the message has been taken.
func (p *Past) Took(id string) bool { return slices.Contains(p.Inputs, id) }

// record adds an event to the turn. What makes no sense is recorded too: the
// owner may be deciding upon a parked past that the store has forgotten. The
// scripts must refuse such a turn, and the promises are checked in the store.
func (p *Past) record(format string, args ...any) error {
	e := fmt.Sprintf(format, args...)
	p.turn.Events = append(p.turn.Events, e)
	return p.apply(e)
}

// Do schedules an activity and gives its id.
func (p *Past) Do(payload string) uint64 {
	_ = p.record("do %s", payload)
	p.turn.Create = append(p.turn.Create, Create{p.n, p.Open[p.n]})
	return p.n
}

// Off cancels an outstanding activity.
func (p *Past) Off(id uint64) {
	_ = p.record("off %d", id)
	p.turn.Delete = append(p.turn.Delete, id)
}

// After sets a timer.
func (p *Past) After(d int64) { _ = p.record("timer @%d", p.Now+d) }

// Tell owes somebody a message.
func (p *Past) Tell(what string) {
	_ = p.record("tell %s", what)
	p.turn.Out = Place{p.Execution, p.n}
}

// Poll waits until everything that has arrived has been applied: the program is told "observed".
func (p *Past) Poll() { _ = p.record("poll") }

// Read takes the first message that was not read.
func (p *Past) Read() string {
	id := p.Unread[0].Tag
	_ = p.record("read %s", id)
	return id
}

// End cancels what is outstanding, and ends.
func (p *Past) End() {
	p.leave()
	_ = p.record("end")
	p.turn.End = "end"
}

// Again cancels what is outstanding, and goes on as new: what was not read is carried into the next execution.
func (p *Past) Again() {
	p.leave()
	_ = p.record("again")
	p.again = true
	next := p.Execution + 1
	p.turn.Begins = next
	p.front(Element{ID: fmt.Sprintf("!c%d.0", next), Kind: "start", Time: p.Now, Tag: strings.Join(p.Inputs[:len(p.Inputs)-len(p.Unread)], "+")})
	for _, e := range p.Unread {
		p.carry(e)
	}
}

func (p *Past) front(e Element) { p.turn.Front = append(p.turn.Front, e) }

func (p *Past) carry(e Element) {
	e.ID = fmt.Sprintf("c%d.%d", p.Execution+1, len(p.turn.Front))
	p.front(e)
}

func (p *Past) leave() {
	for _, id := range sorted(p.Open) {
		p.Off(id)
	}
	for _, id := range sorted(p.Timers) {
		_ = p.record("untimer %d", id)
	}
}

// Decide makes a turn: it takes the inputs one at a time, then the timers that are due, and then completes a poll, unless it leaves inputs
// that a later turn takes: the commit of a timer would be refused, too. Until is the time before which every input that was accepted is known.
func (p *Past) Decide(run Program, r Rules, now, until int64, inputs, left []Element) Turn {
	p.turn.Execution = p.Execution
	if p.n == 0 && p.Execution > 2 {
		p.turn.Prune = p.Execution - 2
	}
	for _, e := range inputs {
		p.turn.Pop = append(p.turn.Pop, e.ID)
		switch {
		case p.again && e.Kind != "done": // it came in the very turn
			p.carry(e)
		case p.Ended:
		case e.Kind == "full": // it fails by name
			p.End()
		case e.Kind == "done":
			if want, open := p.Open[e.Ref]; !open || want != e.Tag && r.Wrong != EffectIgnored {
				if r.Wrong != AckOfNothing { // whoever trusts ack records what it pushes
					continue
				}
			}
			if p.record("done %d %s", e.Ref, e.Tag) == nil {
				run(p, strings.Split(e.Tag, "#")[0])
			}
		default:
			_ = p.record("in %s @%d", e.Tag, e.Time)
			p.told(run, e)
		}
	}
	for _, id := range sorted(p.Timers) {
		if at, open := p.Timers[id]; open && at <= until && !p.Ended && len(left) == 0 {
			_ = p.record("fired %d", id)
			p.turn.Due = max(p.turn.Due, at)
			run(p, "timer")
		}
	}
	p.observe(run, r, inputs, left)
	p.turn.Status, p.turn.Next = "running", p.next(r, now)
	if p.Ended && !p.again {
		p.turn.Status = "ended"
	}
	return p.turn
}

func (p *Past) observe(run Program, r Rules, inputs, left []Element) {
	later := turnable(left) || r.Wrong == PollForgotten && len(inputs) > 0
	if p.Polling && !p.Ended && (!later || r.Wrong == PollEarly) {
		_ = p.record("observed")
		run(p, "observed")
	}
}

// turnable reports whether any of the inputs is for a turn: a purge is the owner's.
func turnable(inputs []Element) bool {
	return slices.ContainsFunc(inputs, func(e Element) bool { return e.Kind != "purge" })
}

// Debt is a message that the stream is not known to have.
type Debt struct {
	At     Place
	Effect string
}

// Debts are the messages of a history, from behind a place.
func Debts(execution uint64, history []string, sent Place) (all []Debt) {
	p := &Past{Execution: execution}
	if len(history) > 0 {
		_ = p.apply(history[0])
	}
	for i, e := range history {
		p.n = uint64(i) + 1
		if what, ok := strings.CutPrefix(e, "tell "); ok && sent.Less(Place{execution, p.n}) {
			all = append(all, Debt{Place{execution, p.n}, p.effect(what)})
		}
	}
	return all
}

// told runs the program upon an input. A start that comes to an instance which runs is its parent's, who wants
// another one in its place: unless that is what runs, it ends.
func (p *Past) told(run Program, e Element) {
	switch {
	case e.Kind != "start":
		run(p, e.Tag)
	case p.n == 1:
		run(p, "start")
	case strings.HasPrefix(e.Tag, "start"): // somebody's, a second time
	case !strings.HasPrefix(p.Inputs[0], heir):
		p.End()
	}
}

// next is when the instance must be looked at if nothing happens before.
func (p *Past) next(r Rules, now int64) (at int64) {
	if len(p.Open) > 0 {
		at = now + r.Look
	}
	for _, t := range p.Timers {
		if t <= now { // it waits until everything that was accepted before is known
			t = now + r.Soon
		}
		if at == 0 || t < at {
			at = t
		}
	}
	return at
}

func sorted[V any](m map[uint64]V) []uint64 {
	ids := make([]uint64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
