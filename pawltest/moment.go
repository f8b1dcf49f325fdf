package pawltest

import (
	"math"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Moment is when something is to happen from outside: to the instance under test, or to
// the one that To names. One that Run does not come to is left for Advance.
type Moment struct {
	e    *world
	when when
	at   time.Duration
	turn int
	to   string // empty: the instance under test
	id   string // of the message; empty: none
}

type when uint8

const (
	beforeStart when = iota + 1
	atTime
	afterTurn
	whenBlocked
)

// action is what happens at a moment.
type action func()

// timed is an action at a time. Inputs are accepted together with those of the same time that follow them.
type timed struct {
	at    int64 // Unix milliseconds
	input bool
	do    action
}

// moments are the actions of a test that are still to come.
type moments struct {
	env     *world
	apply   bool             // they count
	early   []action         // behind the start
	timed   []timed          // each at its time
	blocked []action         // each once nothing else is left to do at an instant
	after   map[int][]action // each behind the turn of that number
	soon    []action         // behind the turn that has just been written
	deploys int              // actions to come that bring other code
}

// next is the time of the first; math.MaxInt64: none has one.
func (m *moments) next() int64 {
	at := int64(math.MaxInt64)
	if !m.apply {
		return at
	}
	for _, t := range m.timed {
		at = min(at, t.at)
	}
	return at
}

// due does the first that is due, and the inputs of its time that follow if it is one. It reports false if none is.
func (m *moments) due(now int64) bool {
	at := m.next()
	if at > now {
		return false
	}
	for i := 0; i < len(m.timed); {
		t := m.timed[i]
		if t.at != at {
			i++
			continue
		}
		m.timed = slices.Delete(m.timed, i, i+1)
		t.do()
		if next := slices.IndexFunc(m.timed, func(n timed) bool { return n.at == at }); !t.input || next < 0 || !m.timed[next].input {
			break
		}
	}
	return true
}

// onceBlocked does the next of those for when all instances wait.
func (m *moments) onceBlocked() bool {
	if !m.apply || len(m.blocked) == 0 {
		return false
	}
	do := m.blocked[0]
	m.blocked = m.blocked[1:]
	do()
	return true
}

// turned notes that a turn is written.
func (m *moments) turned(n int) {
	m.soon = append(m.soon, m.after[n]...)
	delete(m.after, n)
}

// behindTurn does what comes behind the last turn.
func (m *moments) behindTurn() bool {
	if len(m.soon) == 0 {
		return false
	}
	do := m.soon[0]
	m.soon = m.soon[1:]
	do()
	return true
}

// BeforeStart is before the instance under test exists: its events wait for it.
func (e *Env) BeforeStart() Moment { return Moment{e: e.world, when: beforeStart} }

// At is so long after the start; if that is past, now.
func (e *Env) At(d time.Duration) Moment { return Moment{e: e.world, when: atTime, at: d} }

// AfterTurn is right behind a turn, counted over all instances from 1, the start of the
// instance under test: see Turns. A test that goes through all of them finds the turn at
// which something must not happen.
func (e *Env) AfterTurn(n int) Moment { return Moment{e: e.world, when: afterTurn, turn: n} }

// Blocked is when all instances wait and nothing is left to do unless time moves. Of
// several, each takes its turn.
func (e *Env) Blocked() Moment { return Moment{e: e.world, when: whenBlocked} }

// To is the same moment for another instance.
func (m Moment) To(instance string) Moment {
	m.to = instance
	return m
}

// Send sends an event at the moment. An instance that has not started by then has it when
// it starts, within a day. A value that does not encode fails the test.
func Send[T any](m Moment, event pawl.Event[T], v T) {
	m.e.tb.Helper()
	m.input(&message.OutInput{Kind: message.KindEvent, Name: event.Name(), Payload: encode(m.e, "event", event, author.Value(event), v)})
}

// encode gives the payload of a value of a handle. One that does not encode fails the test.
func encode[T any](e *world, what string, handle Named, codec author.Codec[T], v T) history.Payload {
	e.tb.Helper()
	p, err := codec.Encode(v)
	if err != nil {
		e.tb.Fatalf("%s %s: %v", what, handle.Name(), err)
	}
	return p
}

// Cancel requests the cancellation of the instance. One that has not started is not cancelled.
func (m Moment) Cancel(by, text string) {
	m.input(&message.OutInput{Kind: message.KindCancel, By: by, Text: text})
}

// Deploy releases new code: the bindings take the place of those of the same name and
// version, and stand beside all others. Every instance that has begun with one that is
// replaced is brought back from its history with the new code, which must fit, and goes on
// with it. One that waits for its code begins. (As long as a Deploy is to come, an instance
// whose code is not there waits; otherwise it fails the test.)
func (m Moment) Deploy(bindings ...pawl.Binding) {
	m.e.moments.deploys++
	m.add(func() {
		m.e.moments.deploys--
		m.e.deploy(bindings)
	})
}

// Crash makes the process die, and another bring all instances back.
func (m Moment) Crash() { m.add(func() { m.e.crash() }) }

// Do calls fn, for assertions on the way. fn may declare further moments.
func (m Moment) Do(fn func()) { m.add(fn) }

func (m Moment) target() string {
	if m.to == "" {
		return m.e.setup.id
	}
	return m.to
}

// input has an input accepted at the moment.
func (m Moment) input(in *message.OutInput) {
	m.declare(timed{input: true, do: func() {
		in.Instance, in.ID = m.target(), m.id
		m.e.part.accept(in)
	}})
}

func (m Moment) add(do action) { m.declare(timed{do: do}) }

func (m Moment) declare(t timed) {
	all := m.e.moments
	switch m.when {
	case beforeStart:
		all.early = append(all.early, t.do)
	case atTime:
		t.at = epoch().Add(m.at).UnixMilli()
		all.timed = append(all.timed, t)
	case afterTurn:
		all.after[m.turn] = append(all.after[m.turn], t.do)
	case whenBlocked:
		all.blocked = append(all.blocked, t.do)
	}
}
