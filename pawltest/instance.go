package pawltest

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// instance is one of those in the Env: the one under test, or one that a Moment or another
// instance has started.
//
//	Started ──▶ waiting ──code──▶ parked ◀──turn──▶ parked
//	               ▲                 ├──▶ ended
//	               └──continues──────┘
//
// What comes while it waits for its code is held back, in order. A crash may come behind
// every turn, and changes nothing but where the code's variables are.
type instance struct {
	e          *Env
	id         string
	parent     *history.Parent
	executions []*execution // the last one is now
	end        history.Event
	held       []letter // while it has no code
	statuses   []history.Payload
	version    uint64 // of the custom status

	unread []*history.EventReceived // when it ended
	polls  bool                     // the code polls: see poll.go
	behind uint64                   // and that completes behind the mail and the runs up to this number
}

// execution is one generation of an instance.
type execution struct {
	id       history.Identity
	started  *history.Started
	program  replay.Program
	x        *replay.Execution // nil: it waits for its code
	state    history.State
	events   []history.Event
	deployed int // events that other code made
	turns    int
	crashed  int // events at the last crash
}

func (in *instance) now() *execution { return in.executions[len(in.executions)-1] }

// begin prepares an execution; its Started is its first input.
func (in *instance) begin(s *history.Started) {
	in.executions = append(in.executions, &execution{
		id:      history.Identity{Instance: in.id, Origin: s.Origin, Execution: s.Execution},
		started: s,
	})
}

// take gives the instance an input, or holds it back.
func (in *instance) take(l letter) {
	in.e.tb.Helper()
	x := in.now()
	switch {
	case in.end != nil:
	case x.x == nil && !in.find():
		in.held = append(in.held, l)
	default:
		in.turn(l.ev)
	}
}

// find gets the code of an execution that has not begun. If nobody has it, it may still be
// deployed; otherwise the test fails at once.
func (in *instance) find() bool {
	in.e.tb.Helper()
	x := in.now()
	b, ok := in.e.code.program(x.started, false)
	if !ok {
		if in.e.deploys == 0 {
			in.failf("%s", in.lack())
		}
		return false
	}
	if x.started.Version == "" {
		x.started.Version = b.Version
	}
	x.program = b.Program
	x.x = x.fresh()
	return true
}

// lack says what code an instance waits for.
func (in *instance) lack() string {
	s := in.now().started
	if !in.e.code.knows(s.Name) {
		return fmt.Sprintf("instance %s is of orchestration %s, which is neither bound nor faked; give a binding to New or to Fake, or say with Script how it ends",
			in.id, s.Name)
	}
	return fmt.Sprintf("instance %s is of orchestration %s, version %q, which is not bound; bound are %q",
		in.id, s.Name, s.Version, in.e.code.registry.Versions(s.Name))
}

// turn applies an input and does what the code decides.
func (in *instance) turn(ev history.Event) {
	e, x := in.e, in.now()
	e.tb.Helper()
	if ev.Meta().At == 0 {
		ev.Meta().At = e.now
	}
	var err error
	if blocked := e.guard.run(func() { _, err = x.x.Apply(ev) }); blocked != nil {
		x.x.GiveUp()
		x.x = nil // its goroutine still uses it
		in.failf("%v", blocked)
	}
	if err != nil {
		in.failf("%v", err)
	}
	made := x.x.Take()
	for i, ev := range made {
		made[i] = in.record(ev)
	}
	e.turns++
	x.turns++
	if p, version := x.x.Status(); version != in.version {
		in.statuses, in.version = append(in.statuses, p), version
	}
	before := e.sent
	in.post(made)
	in.notePolls(before)
	switch {
	case x.state.End != nil:
		in.ended()
	case e.crashes.given:
	case e.crashes.due(x):
		in.crash()
	}
	if e.crashes.at(e.turns) {
		e.crashAll()
	}
	e.soon = append(e.soon, e.after[e.turns]...)
	delete(e.after, e.turns)
}

// record keeps an event as a store would give it back.
func (in *instance) record(made history.Event) history.Event {
	e, x := in.e, in.now()
	e.tb.Helper()
	raw, err := history.Encode(made)
	if err != nil {
		in.failf("event %d: %v", made.Meta().ID, err)
	}
	ev, err := history.Decode(made.Meta().ID, raw)
	if err != nil {
		in.failf("%v", err)
	}
	x.events = append(x.events, ev)
	if err := x.state.Apply(ev); err != nil {
		in.failf("the turn breaks its history: %v", err)
	}
	return ev
}

// ended checks an execution that has ended, and begins the next if there is to be one: its
// start, and then what was not read, come before all else that the instance is to take.
func (in *instance) ended() {
	e, x := in.e, in.now()
	e.tb.Helper()
	x.check(in)
	next := x.x.Successor()
	switch {
	case next == nil:
		in.end = x.state.End
		in.noteUnread(x.x.Unread())
		e.bury(in)
		return
	case len(in.executions) >= e.limit:
		e.endless = &Endless{Instance: in.id, Executions: len(in.executions)}
		return
	}
	_, unread := x.x.Continued()
	x.x = nil
	in.begin(next)
	first := []letter{{to: in.id, ev: next}}
	for _, ev := range unread {
		again := *ev
		first = append(first, letter{to: in.id, ev: &again})
	}
	e.inputs = append(first, e.inputs...)
}

func (x *execution) fresh() *replay.Execution { return replay.New(x.id, x.program, strict()) }

func strict() replay.Options { return replay.Options{Strict: true} }

// crash forgets the running code and brings the instance back from its history.
func (in *instance) crash() {
	in.e.tb.Helper()
	x := in.now()
	if x.x == nil || x.state.End != nil {
		return
	}
	if err := x.x.Evict(); err != nil {
		in.failf("after turn %d: %v", x.turns, err)
	}
	x.x = x.fresh()
	if err := x.x.Replay(x.events); err != nil {
		in.failf("after turn %d: %v", x.turns, err)
	}
}

// check gives all inputs to the code once more without a crash, and once behind a replay.
func (x *execution) check(in *instance) {
	in.e.tb.Helper()
	p := replaytest.Past{ID: x.id, Program: x.program, Options: strict(), Events: x.events, From: x.deployed, Live: x.x}
	for _, n := range []int{p.From, len(p.Events)} {
		if err := p.Check(n); err != nil {
			in.failf("%v", err)
		}
	}
}

// failf ends the test and shows the history.
func (in *instance) failf(format string, args ...any) {
	in.e.tb.Helper()
	in.e.tb.Fatalf("%s\n%s", fmt.Sprintf(format, args...), in.text())
}

// text is the history of the last execution, and whose it is if it is not that of the
// instance under test.
func (in *instance) text() string {
	text := replaytest.Text(in.now().events)
	if in == in.e.main {
		return text
	}
	return "instance " + in.id + ":\n" + text
}
