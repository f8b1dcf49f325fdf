package pawltest

import (
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// instance is the record of one instance: the contents of its commits, decoded once.
type instance struct {
	e          *world
	id         string
	executions []*execution // the last one is the current one
	end        history.Event
	statuses   []core.StatusChange
	unread     []*history.EventReceived // events that were unread at its end
}

// execution is one generation of an instance.
type execution struct {
	id       effectid.Identity
	started  *history.Started
	program  replay.Program
	state    *fold.State // state after the events, as computed by the turns
	events   []history.Event
	deployed int // number of events made by code that was replaced
	turns    int
	crashed  int // number of events at the last crash
}

func (in *instance) now() *execution { return in.executions[len(in.executions)-1] }

// last returns the latest instance with the id, even if it was purged, or nil.
func (e *world) last(id string) *instance {
	for _, in := range slices.Backward(e.instances) {
		if in.id == id {
			return in
		}
	}
	return nil
}

// ended reports whether the instance has ended for good, without continuing as new.
func (e *world) ended(id string) bool {
	in := e.byID[id]
	return in != nil && in.end != nil
}

// committed records and checks the commit of a turn, and performs what the test has declared for after that turn. The owner receives the
// answer to the commit after that.
func (e *world) committed(id string, c *record.Commit, d *core.Decided) {
	delete(e.part.stalled, id)
	if err := e.answers.add(id, c.Answers); err != nil {
		e.failf(id, "%v", err)
	}
	if in := e.byID[id]; in != nil && (len(c.Delete) > 0 || len(c.Prepend) > 0) {
		e.work.prune(id)
	}
	if len(c.Events) == 0 {
		return
	}
	in := e.record(id, c, d)
	x := in.now()
	e.turns++
	x.turns++
	if d.Status != nil {
		in.statuses = append(in.statuses, *d.Status)
	}
	switch code := e.part.resident[id]; {
	case x.state.End != nil:
		in.over(code.Exec)
	case code.Exec == nil: // the owner committed this without running the code
	case !code.Exec.Polling():
		delete(e.part.lastRun, id)
	}
	e.moments.turned(e.turns)
	switch {
	case e.setup.crashes.at(e.turns):
		e.crash()
	case x.state.End == nil && !e.setup.crashes.given && e.setup.crashes.due(x):
		in.restore()
	}
}

// record adds the events of a commit to those of its instance, decoded from their stored form.
func (e *world) record(id string, c *record.Commit, d *core.Decided) *instance {
	in, number := e.byID[id], d.Fold.Len+1-uint64(len(c.Events))
	for i, raw := range c.Events {
		ev, err := eventcodec.Decode(number+uint64(i), raw)
		if err != nil {
			e.failf(id, "%v", err)
		}
		switch s := ev.(type) {
		case *history.Started:
			in = e.begin(in, id, s)
		case *history.Rewound:
			in.rewound(s)
		}
		in.now().events = append(in.now().events, ev)
	}
	in.now().state = d.Fold
	return in
}

// begin records the start of an execution.
func (e *world) begin(in *instance, id string, s *history.Started) *instance {
	if in == nil || s.Execution == 1 {
		in = &instance{e: e, id: id}
		e.byID[id] = in
		e.instances, e.live = append(e.instances, in), append(e.live, in)
		e.outside.began(id, e.part.Now)
	}
	in.revive()
	x := &execution{id: effectid.Identity{Instance: id, Origin: s.Origin, Execution: s.Execution}, started: s}
	if o, ok := e.code.registry.Recorded(s.Name, s.Version); ok {
		x.program = o.Program
	}
	in.executions = append(in.executions, x)
	return in
}

// rewound records an execution that continues from the kept events of the previous one.
func (in *instance) rewound(r *history.Rewound) {
	was := in.now()
	in.revive()
	x := &execution{id: was.id, started: was.started, program: was.program}
	x.id.Execution = r.Execution
	kept := r.Meta().ID - 1
	x.events = slices.Clone(was.events[:kept])
	in.executions = append(in.executions, x)
}

// revive makes an instance that had ended live again.
func (in *instance) revive() {
	in.end, in.unread = nil, nil
	if !slices.Contains(in.e.live, in) {
		in.e.live = append(in.e.live, in)
	}
}

// over checks an execution that has ended, and records the end of the instance unless it continues as new.
func (in *instance) over(exec *replay.Execution) {
	e, x := in.e, in.now()
	if exec != nil && exec.Ended() {
		x.check(in)
	}
	if _, continues := x.state.End.(*history.ContinuedAsNew); continues {
		if len(in.executions) >= e.setup.limit {
			e.endless = &Endless{Instance: in.id, Executions: len(in.executions)}
		}
		return
	}
	in.end = x.state.End
	if exec != nil && exec.Ended() {
		in.unread = slices.Clone(exec.Unread())
	}
	for _, left := range e.part.Store.Get(in.id).Inbox { // inputs that arrived too late to be received
		if ev, _ := (eventcodec.Element{ID: left.ID, At: left.Time, Body: left.Body}).Event(); ev != nil {
			if r, ok := ev.(*history.EventReceived); ok {
				in.unread = append(in.unread, r)
			}
		}
	}
	e.live = slices.DeleteFunc(e.live, func(other *instance) bool { return other == in })
}

// purged removes an instance that was removed from the store. Its record remains available to Instances.
func (e *world) purged(id string) {
	in := e.byID[id]
	delete(e.byID, id)
	e.live = slices.DeleteFunc(e.live, func(other *instance) bool { return other == in })
}

func (x *execution) fresh() *replay.Execution { return replay.New(x.id, x.program, strict()) }

func strict() replay.Options { return replay.Options{Strict: true} }

// restore evicts the code of the instance and restores it from the history, as another process would.
func (in *instance) restore() {
	p, x := in.e.part, in.now()
	code, ok := p.resident[in.id]
	if !ok {
		return
	}
	if err := code.Exec.Evict(); err != nil {
		in.failf("after turn %d: %v", x.turns, err)
	}
	delete(p.resident, in.id)
	again, err := code.Restore(x.events, x.fresh())
	p.resident[in.id] = again
	if err != nil {
		in.failf("after turn %d: %v", x.turns, err)
	}
}

// check applies all inputs once more, without a crash, and once after a replay.
func (x *execution) check(in *instance) {
	p := replaytest.Past{ID: x.id, Program: x.program, Options: strict(), Events: x.events, From: x.deployed, Live: in.e.part.resident[in.id].Exec}
	if x.program == nil || x.state.PausedBy() != nil {
		return
	}
	for _, n := range []int{p.From, len(p.Events)} {
		if err := p.Check(n); err != nil {
			in.failf("%v", err)
		}
	}
}

// failf ends the test and prints the history.
func (in *instance) failf(format string, args ...any) {
	in.e.tb.Helper()
	in.e.fatalf("%s\n%s", fmt.Sprintf(format, args...), in.text())
}

// failf ends the test and prints the history of the instance, if it has one.
func (e *world) failf(id, format string, args ...any) {
	e.tb.Helper()
	if in := e.byID[id]; in != nil {
		in.failf(format, args...)
	}
	e.fatalf(format, args...)
}

// failed is the panic value with which a test fails inside drive. It unwinds to the call made by the test, so that the failure is
// reported with that line.
type failed string

// fatalf ends the test.
func (e *world) fatalf(format string, args ...any) {
	e.tb.Helper()
	text := fmt.Sprintf(format, args...)
	if e.running {
		panic(failed(text))
	}
	e.tb.Fatal(text)
}

// drive runs fn, and fails the test if fn has failed.
func (e *world) drive(fn func()) {
	e.tb.Helper()
	e.running = true
	text := e.failure(fn)
	e.running = false
	if text != "" {
		e.tb.Fatal(text)
	}
}

func (e *world) failure(fn func()) (text string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failed:
			text = string(v)
		default:
			panic(v)
		}
	}()
	fn()
	return ""
}

// text returns the history of the last execution, preceded by the instance id if it is not the instance under test.
func (in *instance) text() string {
	text := replaytest.Text(in.now().events)
	if in.id == in.e.setup.id {
		return text
	}
	return "instance " + in.id + ":\n" + text
}
