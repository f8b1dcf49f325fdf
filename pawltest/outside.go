package pawltest

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// earlyKept is how long an event waits for an instance to start.
const earlyKept = 24 * time.Hour

// outside has what instances have sent to others that are not in the Env.
type outside struct{ sent []sent }

// sent is a message to an instance that is not there.
type sent struct {
	to    string
	ev    history.Event     // EventSent, or the ChildScheduled of a detached start
	start *message.OutInput // of an orchestration that is not bound
	at    int64
}

// began takes out the events that an instance has received with its start.
func (o *outside) began(id string, now int64) {
	o.sent = slices.DeleteFunc(o.sent, func(s sent) bool {
		return s.to == id && time.Duration(now-s.at)*time.Millisecond < earlyKept
	})
}

// send takes a message of an instance.
func (e *world) send(out *message.OutInput) {
	e.tb.Helper()
	_, here := e.byID[out.Instance]
	switch {
	case out.Kind == message.KindStart && out.Parent != nil:
		e.work.start(out)
		return
	case out.Kind == message.KindCancel && e.work.stop(out.Of):
		return // the child has not started
	case out.Kind == message.KindStart && out.Event == nil && !here && !e.code.has(out.Name):
		e.leave(out, &history.ChildScheduled{Name: out.Name, Instance: out.Instance, Version: out.Version, Payload: out.Payload, Detached: true})
		return
	case out.Kind == message.KindStart && out.Event != nil && !here && !e.code.has(out.Name):
		alone := &message.OutInput{Instance: out.Instance, Sender: out.Sender, Kind: message.KindEvent, Name: out.Event.Name, Payload: out.Event.Payload, ID: out.ID, By: out.By}
		e.send(alone) // an orchestration of another fleet: the event shows it
		return
	case out.Kind == message.KindEvent && !here:
		e.outside.sent = append(e.outside.sent, sent{to: out.Instance, at: e.part.Now, ev: &history.EventSent{
			Instance: out.Instance, Name: out.Name, Payload: out.Payload, Effect: out.ID,
		}})
	}
	e.part.accept(out)
}

// leave keeps a start whose orchestration is not bound: it may still be deployed.
func (e *world) leave(out *message.OutInput, ev history.Event) {
	e.outside.sent = append(e.outside.sent, sent{to: out.Instance, ev: ev, start: out, at: e.part.Now})
}

// returned starts what was sent to the outside and is bound now.
func (e *world) returned() {
	e.outside.sent = slices.DeleteFunc(e.outside.sent, func(s sent) bool {
		if s.start == nil || !e.code.has(s.start.Name) {
			return false
		}
		e.part.accept(s.start)
		return true
	})
}

// Sent lists all messages of instances to receivers that are not in the Env, in
// order, as their histories have it: events to instances that were not there to have them,
// and detached starts of orchestrations that were neither bound nor faked.
func (e *Env) Sent() []string {
	var all []string
	for _, s := range e.world.outside.sent {
		all = append(all, show.Summary(s.ev))
	}
	return all
}
