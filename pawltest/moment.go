package pawltest

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
)

// Moment is when something is to happen to the instance from outside. One that the
// instance does not live to see is left out.
type Moment struct {
	e    *Env
	when when
	at   time.Duration
}

type when uint8

const (
	beforeStart when = iota + 1
	atTime
	onceBlocked
)

// action is what happens at a moment.
type action func()

type timed struct {
	at int64 // Unix milliseconds
	do action
}

// BeforeStart is before the instance exists: its events wait for it.
func (e *Env) BeforeStart() Moment { return Moment{e: e, when: beforeStart} }

// At is so long after the start; if that is past, now.
func (e *Env) At(d time.Duration) Moment { return Moment{e: e, when: atTime, at: d} }

// Blocked is when the orchestration waits and nothing is left to do unless time moves.
// Of several, each takes its turn.
func (e *Env) Blocked() Moment { return Moment{e: e, when: onceBlocked} }

// Send sends an event at the moment. A value that does not encode fails the test.
func Send[T any](m Moment, event pawl.Event[T], v T) {
	m.e.tb.Helper()
	p, err := event.Encode(v)
	if err != nil {
		m.e.tb.Fatalf("send %s: %v", event.Name(), err)
	}
	m.add(func() { m.e.feed(&history.EventReceived{Name: event.Name(), Payload: p}) })
}

// Cancel asks the instance to end.
func (m Moment) Cancel(by, text string) {
	m.add(func() { m.e.feed(&history.CancelRequested{By: by, Text: text}) })
}

// Crash makes the process die, and another bring the instance back.
func (m Moment) Crash() { m.add(func() { m.e.crash() }) }

// Do calls fn, for assertions on the way. fn may declare further moments.
func (m Moment) Do(fn func()) { m.add(fn) }

func (m Moment) add(do action) {
	e := m.e
	switch m.when {
	case beforeStart:
		e.early = append(e.early, do)
	case atTime:
		e.timed = append(e.timed, timed{at: epoch().Add(m.at).UnixMilli(), do: do})
	case onceBlocked:
		e.blocked = append(e.blocked, do)
	}
}
