package pawltest

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

// Moment is when something is to happen from outside: to the instance under test, or to
// the one that To names. One that Run does not come to is left for Advance.
type Moment struct {
	e    *Env
	when when
	at   time.Duration
	turn int
	to   string // empty: the instance under test
}

type when uint8

const (
	beforeStart when = iota + 1
	atTime
	afterTurn
	onceBlocked
)

// action is what happens at a moment.
type action func()

type timed struct {
	at int64 // Unix milliseconds
	do action
}

// BeforeStart is before the instance under test exists: its events wait for it.
func (e *Env) BeforeStart() Moment { return Moment{e: e, when: beforeStart} }

// At is so long after the start; if that is past, now.
func (e *Env) At(d time.Duration) Moment { return Moment{e: e, when: atTime, at: d} }

// AfterTurn is right behind a turn, counted over all instances from 1, the start of the
// instance under test: see Turns. A test that goes through all of them finds the turn at
// which something must not happen.
func (e *Env) AfterTurn(n int) Moment { return Moment{e: e, when: afterTurn, turn: n} }

// Blocked is when all instances wait and nothing is left to do unless time moves. Of
// several, each takes its turn.
func (e *Env) Blocked() Moment { return Moment{e: e, when: onceBlocked} }

// To is the same moment for another instance.
func (m Moment) To(instance string) Moment {
	m.to = instance
	return m
}

// Send sends an event at the moment. An instance that has not started by then has it when
// it starts, within a day. A value that does not encode fails the test.
func Send[T any](m Moment, event pawl.Event[T], v T) {
	m.e.tb.Helper()
	p, err := author.Value(event).Encode(v)
	if err != nil {
		m.e.tb.Fatalf("send %s: %v", event.Name(), err)
	}
	m.add(func() {
		m.e.deliver(letter{to: m.target(), ev: &history.EventReceived{Name: event.Name(), Payload: p}})
	})
}

// Start starts another instance at the moment, of the newest version: the one that To
// names. If it is there already, nothing happens.
func Start[In, Out any](m Moment, o pawl.Orchestration[In, Out], in In) {
	m.e.tb.Helper()
	p, err := author.Input(o).Encode(in)
	if err != nil {
		m.e.tb.Fatalf("start %s: %v", o.Name(), err)
	}
	m.add(func() {
		m.e.deliver(letter{to: m.target(), ev: &history.Started{Name: o.Name(), Payload: p, By: "test"}})
	})
}

// Cancel asks the instance to end. One that has not started is not told.
func (m Moment) Cancel(by, text string) {
	m.add(func() { m.e.deliver(letter{to: m.target(), ev: &history.CancelRequested{By: by, Text: text}}) })
}

// Deploy releases new code: the bindings take the place of those of the same name and
// version, and stand beside all others. Every instance that has begun with one that is
// replaced is brought back from its history with the new code, which must fit, and goes on
// with it. One that waits for its code begins. (As long as a Deploy is to come, an instance
// whose code is not there waits; otherwise it fails the test.)
func (m Moment) Deploy(bindings ...pawl.Binding) {
	m.e.deploys++
	m.add(func() {
		m.e.deploys--
		m.e.deploy(bindings)
	})
}

// Crash makes the process die, and another bring all instances back.
func (m Moment) Crash() { m.add(func() { m.e.crashAll() }) }

// Do calls fn, for assertions on the way. fn may declare further moments.
func (m Moment) Do(fn func()) { m.add(fn) }

func (m Moment) target() string {
	if m.to == "" {
		return m.e.id
	}
	return m.to
}

func (m Moment) add(do action) {
	e := m.e
	switch m.when {
	case beforeStart:
		e.early = append(e.early, do)
	case atTime:
		e.timed = append(e.timed, timed{at: epoch().Add(m.at).UnixMilli(), do: do})
	case afterTurn:
		e.after[m.turn] = append(e.after[m.turn], do)
	case onceBlocked:
		e.blocked = append(e.blocked, do)
	}
}
