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

// Moment is a point in the run at which the test does something from outside, to the instance under test or to the one named by To. A
// Moment that Run does not reach is left for Advance.
type Moment struct {
	e    *world
	when when
	at   time.Duration
	turn int
	to   string // instance id; empty means the instance under test
	id   string // id of the message; empty means none
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

// timed is an action at a time. Inputs are accepted together with the inputs of the same time that follow them.
type timed struct {
	at    int64 // Unix milliseconds
	input bool
	do    action
}

// moments are the actions declared by a test that have not happened yet.
type moments struct {
	env     *world
	apply   bool             // whether the timed and blocked actions count
	early   []action         // actions performed once the start is accepted, before its first turn
	timed   []timed          // actions at a time
	blocked []action         // one each time that nothing else is left to do at an instant
	after   map[int][]action // actions after the turn with that number
	soon    []action         // actions after the turn that was just committed
	deploys int              // number of Deploy actions that have not happened yet
}

// next returns the time of the first timed action, or math.MaxInt64 if there is none.
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

// due performs the first timed action that is due and, if that is an input, the inputs of the same time that follow it. It reports
// whether there was one.
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

// onceBlocked performs the next action declared for when all instances wait.
func (m *moments) onceBlocked() bool {
	if !m.apply || len(m.blocked) == 0 {
		return false
	}
	do := m.blocked[0]
	m.blocked = m.blocked[1:]
	do()
	return true
}

// turned makes the actions declared for after turn n due.
func (m *moments) turned(n int) {
	m.soon = append(m.soon, m.after[n]...)
	delete(m.after, n)
}

// afterLastTurn performs the next action declared for after the last turn. It reports whether there was one.
func (m *moments) afterLastTurn() bool {
	if len(m.soon) == 0 {
		return false
	}
	do := m.soon[0]
	m.soon = m.soon[1:]
	do()
	return true
}

// BeforeStart is the moment before the instance under test starts. Events sent then are kept for it.
func (e *Env) BeforeStart() Moment { return Moment{e: e.world, when: beforeStart} }

// At is the moment d after the start, or now if that has passed.
func (e *Env) At(d time.Duration) Moment { return Moment{e: e.world, when: atTime, at: d} }

// AfterTurn is the moment immediately after turn n. Turns are counted over all instances from 1, the start of the instance under test:
// see Turns. A test that tries all values of n finds the turns after which something must not happen.
func (e *Env) AfterTurn(n int) Moment { return Moment{e: e.world, when: afterTurn, turn: n} }

// Blocked is the moment when all instances wait and nothing is left to do unless time advances. If several are declared, they happen one
// at a time.
func (e *Env) Blocked() Moment { return Moment{e: e.world, when: whenBlocked} }

// To returns the same moment for another instance.
func (m Moment) To(instance string) Moment {
	m.to = instance
	return m
}

// Send sends an event at the moment. If the instance has not started by then, it receives the event when it starts, within a day. A value
// that does not encode fails the test.
func Send[T any](m Moment, event pawl.Event[T], v T) {
	m.e.tb.Helper()
	m.input(&message.OutInput{Kind: message.KindEvent, Name: event.Name(), Payload: encode(m.e, "event", event, author.Value(event), v)})
}

// encode encodes a value for a handle. A value that does not encode fails the test.
func encode[T any](e *world, what string, handle Named, codec author.Codec[T], v T) history.Payload {
	e.tb.Helper()
	p, err := codec.Encode(v)
	if err != nil {
		e.tb.Fatalf("%s %s: %v", what, handle.Name(), err)
	}
	return p
}

// Cancel requests the cancellation of the instance. It has no effect on an instance that has not started.
func (m Moment) Cancel(by, text string) {
	m.input(&message.OutInput{Kind: message.KindCancel, By: by, Text: text})
}

// Deploy deploys new code: the bindings replace those with the same name and version, and are added to the others. Every running instance
// whose binding is replaced is restored from its history with the new code, which must match it, and continues with that. An instance
// whose code was missing starts if it is now bound. As long as a Deploy is still to come, an instance without code waits; otherwise it
// fails the test.
func (m Moment) Deploy(bindings ...pawl.Binding) {
	m.e.moments.deploys++
	m.add(func() {
		m.e.moments.deploys--
		m.e.deploy(bindings)
	})
}

// Crash makes the process die, and another process restore all instances.
func (m Moment) Crash() { m.add(func() { m.e.crash() }) }

// Do calls fn, for assertions during the run. fn may declare further moments.
func (m Moment) Do(fn func()) { m.add(fn) }

func (m Moment) target() string {
	if m.to == "" {
		return m.e.setup.id
	}
	return m.to
}

// input makes the stream accept an input at the moment.
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
