// Package drive runs an orchestration in a test without servers: its activities are
// called where it stands, its timers go off when nothing else is left to do, and at
// the end its history is replayed and must come out the same.
package drive

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/replay"
)

// Run runs an orchestration to its end, which it gives: *history.Completed,
// *history.Failed or *history.Cancelled. Whenever no activity is outstanding, the next
// of the inputs (events, a cancellation) is given to it, and after them the timers.
func Run(tb testing.TB, o pawl.OrchestrationBinding, as []pawl.ActivityBinding, in history.Payload, inputs ...history.Event) history.Event {
	tb.Helper()
	registry := make(map[string]pawl.ActivityBinding, len(as))
	for _, a := range as {
		registry[a.Name()] = a
	}
	id := replay.Identity{Instance: "drive", Born: history.Position{Seq: 1, Time: 1}}
	d := driver{tb: tb, x: replay.New(id, o.Program(), replay.Options{}), activities: registry}
	d.feed(&history.Started{Name: o.Name(), Payload: in, Born: id.Born})
	for !d.x.Ended() {
		if len(d.queue) > 0 {
			next := d.queue[0]
			d.queue = d.queue[1:]
			d.feed(d.run(next))
			continue
		}
		if len(inputs) > 0 {
			next := inputs[0]
			inputs = inputs[1:]
			d.feed(next)
			continue
		}
		timer, at, ok := d.x.NextTimer()
		if !ok {
			tb.Fatalf("the orchestration waits for something that never comes; history: %d events", len(d.events))
		}
		d.now = max(d.now, at)
		d.feed(&history.TimerFired{Timer: timer})
	}
	again := replay.New(id, o.Program(), replay.Options{Strict: true})
	if err := again.Replay(d.events); err != nil {
		tb.Fatalf("replay: %v", err)
	}
	return d.events[len(d.events)-1]
}

type driver struct {
	tb         testing.TB
	x          *replay.Execution
	activities map[string]pawl.ActivityBinding
	events     []history.Event
	queue      []*history.ActivityScheduled // wanted and not run
	now        int64
}

func (d *driver) feed(in history.Event) {
	d.tb.Helper()
	d.now++
	in.Meta().At = d.now
	if _, err := d.x.Apply(in); err != nil {
		d.tb.Fatalf("apply %T: %v", in, err)
	}
	for _, e := range d.x.Take() {
		d.events = append(d.events, e)
		switch e := e.(type) {
		case *history.ActivityScheduled:
			d.queue = append(d.queue, e)
		case *history.ActivityCancelRequested:
			d.queue = slices.DeleteFunc(d.queue, func(s *history.ActivityScheduled) bool { return s.ID == e.Scheduled })
		default: // nothing for the world to do
		}
	}
}

func (d *driver) run(s *history.ActivityScheduled) history.Event {
	d.tb.Helper()
	a, ok := d.activities[s.Name]
	if !ok {
		d.tb.Fatalf("activity %s is not registered", s.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx = pawl.WithInfo(ctx, pawl.ActivityInfo{Instance: "drive", Activity: s.ID, Name: s.Name, Queue: s.Queue, Attempt: s.Attempt, Claim: 1, Key: s.Effect})
	result, failure := a.Handle(ctx, s.Payload)
	if failure != nil {
		return &history.ActivityFailed{Scheduled: s.ID, Failure: *failure, Worker: "drive", Claims: 1}
	}
	return &history.ActivityCompleted{Scheduled: s.ID, Result: result, Worker: "drive", Claims: 1}
}
