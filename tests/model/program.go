package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Program is an orchestration: it is told of each input that took effect and
// decides by the history alone. What it is told is the id of a message, the
// payload of a completed activity, or "timer".
type Program func(p *Past, input string)

// Past is a history folded, and the turn that goes on from it.
//
// The events are strings: "in ID @time", "do PAYLOAD", "done ID EFFECT", "off ID",
// "timer @time", "fired ID", "untimer ID", "end". Their ids are their places, from one.
type Past struct {
	Inputs []string          // ids of the messages taken, in order
	Open   map[uint64]string // outstanding activities: effect id
	Timers map[uint64]int64
	Ended  bool
	Now    int64 // of the last input: never the clock's
	turn   Turn
	n      uint64
	done   []string
}

// Fold reads a history. It reports what is wrong with it, if anything.
func Fold(history []string) (*Past, error) {
	p := &Past{Open: map[uint64]string{}, Timers: map[uint64]int64{}}
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
		if slices.Contains(p.Inputs, w[1]) {
			return fmt.Errorf("input %s is twice in history", w[1])
		}
		p.Inputs = append(p.Inputs, w[1])
		p.Now = max(p.Now, stamp(w[2]))
	case "do":
		p.Open[p.n] = effect(w[1], p.n)
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
	case "end":
		p.Ended = true
	}
	return nil
}

func stamp(w string) int64             { t, _ := strconv.ParseInt(w[1:], 10, 64); return t }
func effect(p string, n uint64) string { return p + "#" + strconv.FormatUint(n, 10) }

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

// End cancels what is outstanding, and ends.
func (p *Past) End() {
	for _, id := range sorted(p.Open) {
		p.Off(id)
	}
	for _, id := range sorted(p.Timers) {
		_ = p.record("untimer %d", id)
	}
	_ = p.record("end")
}

// Decide makes a turn: it takes the inputs one at a time, then the timers that are due.
func (p *Past) Decide(run Program, r Rules, now int64, inputs []Element) Turn {
	for _, e := range inputs {
		p.turn.Pop = append(p.turn.Pop, e.ID)
		switch {
		case p.Ended:
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
			run(p, e.Tag)
		}
	}
	for _, id := range sorted(p.Timers) {
		if at, open := p.Timers[id]; open && at <= now && !p.Ended {
			_ = p.record("fired %d", id)
			run(p, "timer")
		}
	}
	p.turn.Status, p.turn.Next = "running", p.next(r, now)
	if p.Ended {
		p.turn.Status = "ended"
	}
	return p.turn
}

// next is when the instance must be looked at if nothing happens before.
func (p *Past) next(r Rules, now int64) (at int64) {
	if len(p.Open) > 0 {
		at = now + r.Look
	}
	for _, t := range p.Timers {
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

// Both runs two activities side by side.
func Both(p *Past, input string) {
	if input == "start" {
		p.Do("A")
		p.Do("Z")
	}
}

// Race does what depends on which input came first, under the same event id.
func Race(p *Past, input string) {
	switch {
	case input == "start":
		p.Do("A")
	case input == "go" && !p.Did("A"):
		p.Do("early")
	case input == "A" && !p.Took("go"):
		p.Do("late")
	}
}

// Deadline is a select between an activity and a timer; the loser is cancelled.
func Deadline(p *Past, input string) {
	switch input {
	case "start":
		p.Do("A")
		p.After(2)
	case "A", "timer":
		p.End()
	}
}

// Churn schedules and cancels in one turn.
func Churn(p *Past, input string) {
	if input == "start" {
		p.Do("A")
		p.Off(p.Do("B"))
	}
}

// Stop runs two activities until it is cancelled.
func Stop(p *Past, input string) {
	switch input {
	case "start":
		p.Do("A")
		p.Do("Z")
	case "stop":
		p.End()
	}
}
