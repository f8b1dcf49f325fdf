// Package replaytest drives executions in tests: it feeds inputs, records the history,
// and checks that every prefix of the history replays to the same decisions.
package replaytest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Epoch is the time of the first input, in Unix milliseconds.
const Epoch = 1_700_000_000_000

// Driver owns one live execution. It fails its test at the first error
// and is not safe for concurrent use.
type Driver struct {
	tb      testing.TB
	id      effectid.Identity
	program replay.Program
	opts    replay.Options

	deployed int             // number of events that other programs made: see Deploy
	limits   map[string]bool // actions with a limit; true: callers wait

	X       *replay.Execution // the live execution
	History []history.Event   // all events taken from it
	Now     int64             // time of the next input, Unix milliseconds; moves with Advance
}

// New returns a driver whose execution has not started. The execution is evicted when the test ends.
func New(tb testing.TB, program replay.Program, opts replay.Options) *Driver {
	tb.Helper()
	d := &Driver{
		tb: tb, program: program, opts: opts, Now: Epoch,
		id: effectid.Identity{Instance: "order-42", Origin: history.Position{Seq: 7, Time: 1_699_999_999_999}},
	}
	d.X = d.fresh()
	tb.Cleanup(func() {
		if err := d.X.Evict(); err != nil {
			tb.Errorf("evict: %v", err)
		}
	})
	return d
}

func (d *Driver) fresh() *replay.Execution { return replay.New(d.id, d.program, d.opts) }

// Restart discards the history and begins again with another program.
func (d *Driver) Restart(program replay.Program) {
	d.tb.Helper()
	d.program, d.History, d.Now, d.deployed, d.id.Execution = program, nil, Epoch, 0, 1
	d.resume()
}

// resume evicts the execution and replays the history into a new one.
func (d *Driver) resume() {
	d.tb.Helper()
	if err := d.X.Evict(); err != nil {
		d.tb.Fatalf("evict: %v", err)
	}
	d.X = d.fresh()
	if err := d.X.Replay(cloneAll(d.History)); err != nil {
		d.tb.Fatalf("replay: %v\n%s", err, Text(d.History))
	}
}

// Deploy evicts the execution and replays its history with another program, which continues it.
func (d *Driver) Deploy(program replay.Program) {
	d.tb.Helper()
	d.program, d.deployed = program, len(d.History)
	d.resume()
}

// Rewind begins the next execution as an owner does: with the kept events, Rewound, and the inputs put back.
func (d *Driver) Rewind(plan *fold.Plan) {
	d.tb.Helper()
	from := plan.State.Execution()
	d.History = cloneAll(d.History[:plan.Keep])
	d.id.Execution = from + 1
	d.resume()
	d.Feed(&history.Rewound{Execution: from + 1, From: from, Answered: plan.AnsweredIDs()})
	for _, ev := range plan.PutBack {
		if d.X.Ended() {
			return
		}
		in := clone(ev)
		*in.Meta() = history.Head{}
		d.Offer(in) // dropped if it completes an activity that the code now cancels
	}
}

// Continue checks an execution that has continued as new, and feeds the next one: Started,
// the updates that were received and not answered, and the unread events and updates. It returns all decisions.
func (d *Driver) Continue() []history.Event {
	d.tb.Helper()
	next := d.X.Successor()
	if next == nil {
		d.tb.Fatalf("the execution has not continued as new:\n%s", Text(d.History))
	}
	d.CheckReplay()
	d.CheckRecord()
	carried := d.X.Carried()
	d.id.Execution++
	d.History, d.deployed = nil, 0
	d.X = d.fresh()
	next.At = d.Now // the test may have advanced the time
	made := d.Feed(next)
	for _, ev := range carried {
		if d.X.Ended() {
			break
		}
		made = append(made, d.Feed(clone(ev))...)
	}
	return made
}

// Feed applies one input, fails the test if it is dropped, and returns the decisions.
func (d *Driver) Feed(in history.Event) []history.Event {
	d.tb.Helper()
	outcome, decisions := d.Offer(in)
	if outcome.Dropped() {
		d.tb.Fatalf("%T was %s", in, outcome)
	}
	return decisions
}

// Offer applies one input, at Now if it has no time, and returns the outcome and the decisions.
func (d *Driver) Offer(in history.Event) (replay.Outcome, []history.Event) {
	d.tb.Helper()
	if in.Meta().At == 0 {
		in.Meta().At = d.Now
	}
	outcome, err := d.X.Apply(in)
	if err != nil {
		d.tb.Fatalf("apply %T: %v", in, err)
	}
	taken := d.X.Take()
	if outcome.Dropped() {
		if len(taken) > 0 {
			d.tb.Fatalf("%T was %s and recorded %d events", in, outcome, len(taken))
		}
		return outcome, nil
	}
	d.enter(taken)
	for i, ev := range taken {
		if want := uint64(len(d.History) + 1); ev.Meta().ID != want {
			d.tb.Fatalf("event %T has the id %d at the place %d", ev, ev.Meta().ID, want)
		}
		if ev.Input() != (i == 0) {
			d.tb.Fatalf("event %d of a step is %T", i, ev)
		}
		d.History = append(d.History, ev)
	}
	return outcome, taken[1:]
}

// Start feeds Started. The instance waits if the limit of "test" has no free slot.
func (d *Driver) Start(input history.Payload) []history.Event {
	d.tb.Helper()
	s := &history.Started{Name: "test", Payload: input, Origin: d.id.Origin, Execution: d.id.Execution, By: "driver"}
	if waits, limited := d.limits[s.Name]; limited {
		s.Limit = &history.Limit{Name: s.Name, Ticket: "start", Waiting: waits}
	}
	return d.Feed(s)
}

// Limit sets a limit on an action: an activity, or the instance itself, whose name is "test". From now on a ticket is admitted if there
// is room, and waits for Grant otherwise.
func (d *Driver) Limit(action string, room bool) {
	if d.limits == nil {
		d.limits = make(map[string]bool)
	}
	d.limits[action] = !room
}

// enter records the limits of the activities that a turn has scheduled and not cancelled, as an owner does after a turn.
func (d *Driver) enter(made []history.Event) {
	if len(d.limits) == 0 {
		return
	}
	outstanding := d.X.Outstanding()
	for _, ev := range made {
		s, ok := ev.(*history.ActivityScheduled)
		if !ok || !slices.Contains(outstanding, s.ID) {
			continue
		}
		waits, limited := d.limits[s.Name]
		if !limited {
			continue
		}
		g := history.Limit{}
		if s.Limit != nil {
			g = *s.Limit
		}
		g.Name, g.Ticket, g.Waiting = s.Name, s.Effect, waits
		if g.Retain {
			g.Ticket = s.CallKey()
			g.Waiting = waits && !d.holds(g.Ticket)
		}
		s.Limit = &g
	}
}

// holds reports whether the ticket has been admitted and has not left.
func (d *Driver) holds(ticket string) bool {
	d.tb.Helper()
	state, bad := fold.Check(d.History)
	if err := errors.Join(bad...); err != nil {
		d.tb.Fatalf("%v:\n%s", err, Text(d.History))
	}
	return slices.ContainsFunc(state.Tickets(), func(t fold.Ticket) bool { return t.ID == ticket && !t.Waiting })
}

// Grant admits a waiting activity, or, with 1, the instance.
func (d *Driver) Grant(scheduled uint64) []history.Event {
	d.tb.Helper()
	return d.Feed(&history.Granted{Scheduled: scheduled})
}

// Complete feeds the result of an activity.
func (d *Driver) Complete(scheduled uint64, result history.Payload) []history.Event {
	d.tb.Helper()
	return d.Feed(&history.ActivityCompleted{Scheduled: scheduled, Result: result})
}

// Fail feeds the failure of an activity.
func (d *Driver) Fail(scheduled uint64, f history.Failure) []history.Event {
	d.tb.Helper()
	return d.Feed(&history.ActivityFailed{Scheduled: scheduled, Failure: f})
}

// CompleteChild feeds the result of a child.
func (d *Driver) CompleteChild(scheduled uint64, result history.Payload) []history.Event {
	d.tb.Helper()
	return d.Feed(&history.ChildCompleted{Scheduled: scheduled, Effect: d.EffectOf(scheduled), Result: result})
}

// FailChild feeds the failure of a child.
func (d *Driver) FailChild(scheduled uint64, f history.Failure) []history.Event {
	d.tb.Helper()
	return d.Feed(&history.ChildFailed{Scheduled: scheduled, Effect: d.EffectOf(scheduled), Failure: f})
}

// EffectOf returns the effect id of a child's start.
func (d *Driver) EffectOf(scheduled uint64) string {
	d.tb.Helper()
	ev, ok := d.History[scheduled-1].(*history.ChildScheduled)
	if !ok {
		d.tb.Fatalf("event %d is no start of a child:\n%s", scheduled, Text(d.History))
	}
	return ev.Effect
}

// Send feeds an event.
func (d *Driver) Send(name string, payload history.Payload) []history.Event {
	d.tb.Helper()
	return d.Feed(&history.EventReceived{Name: name, Payload: payload})
}

// Observe completes the polls of the code; it fails the test if the code does not poll.
func (d *Driver) Observe() []history.Event {
	d.tb.Helper()
	if !d.X.Polling() {
		d.tb.Fatalf("the code does not poll:\n%s", Text(d.History))
	}
	return d.Feed(&history.Observed{})
}

// Cancel feeds the cancellation of the instance.
func (d *Driver) Cancel(by, text string) []history.Event {
	d.tb.Helper()
	return d.Feed(&history.CancelRequested{By: by, Text: text})
}

// Fire advances the time to the next timer and feeds it.
func (d *Driver) Fire() []history.Event {
	d.tb.Helper()
	id, at, ok := d.X.NextTimer()
	if !ok {
		d.tb.Fatal("no timer is set")
	}
	d.Now = max(d.Now, at)
	return d.Feed(&history.TimerFired{Timer: id})
}

// Advance moves the time of later inputs forward.
func (d *Driver) Advance(by time.Duration) { d.Now += by.Milliseconds() }

// Scheduled returns the ids of the outstanding activities of a name, ascending.
func (d *Driver) Scheduled(name string) []uint64 {
	var ids []uint64
	for _, id := range d.X.Outstanding() {
		if ev, ok := d.History[id-1].(*history.ActivityScheduled); ok && ev.Name == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// Only returns the single outstanding activity of a name.
func (d *Driver) Only(name string) uint64 {
	d.tb.Helper()
	ids := d.Scheduled(name)
	if len(ids) != 1 {
		d.tb.Fatalf("%d activities %s are outstanding, not one:\n%s", len(ids), name, Text(d.History))
	}
	return ids[0]
}

// OnlyChild returns the start of the single outstanding child.
func (d *Driver) OnlyChild() *history.ChildScheduled {
	d.tb.Helper()
	ids := d.X.Children()
	if len(ids) != 1 {
		d.tb.Fatalf("%d children are outstanding, not one:\n%s", len(ids), Text(d.History))
	}
	return d.History[ids[0]-1].(*history.ChildScheduled) //nolint:forcetypeassert // Children returns only ids of ChildScheduled
}

// End returns the event that ended the execution.
func (d *Driver) End() history.Event {
	d.tb.Helper()
	if !d.X.Ended() {
		d.tb.Fatalf("the execution has not ended:\n%s", Text(d.History))
	}
	return d.History[len(d.History)-1]
}

// CheckRecord checks that the history breaks no rule, and that the execution and the history agree on all outstanding work.
func (d *Driver) CheckRecord() {
	d.tb.Helper()
	state, bad := fold.Check(d.History)
	if err := errors.Join(bad...); err != nil {
		d.tb.Fatalf("%v:\n%s", err, Text(d.History))
	}
	if open := d.X.Outstanding(); !slices.Equal(open, state.Outstanding()) {
		d.tb.Fatalf("outstanding are %v, and by the history %v:\n%s", open, state.Outstanding(), Text(d.History))
	}
	if open := d.X.Children(); !slices.Equal(open, state.Children()) {
		d.tb.Fatalf("outstanding children are %v, and by the history %v:\n%s", open, state.Children(), Text(d.History))
	}
	if _, _, ok := d.X.NextTimer(); ok != (state.TimerLen() > 0) {
		d.tb.Fatalf("a timer is set: %t; by the history %d:\n%s", ok, state.TimerLen(), Text(d.History))
	}
}

// CheckReplay runs Past.Check on the prefixes of the history that end with a step and are not
// shorter than what other programs made. Of a history with more than 100 steps it checks about
// a hundred.
func (d *Driver) CheckReplay() {
	d.tb.Helper()
	p := Past{ID: d.id, Program: d.program, Options: d.opts, Events: d.History, From: d.deployed, Live: d.X}
	if err := p.CheckPrefixes(100); err != nil {
		d.tb.Fatalf("%v\nrecorded:\n%s", err, Text(d.History))
	}
}
