package pawltest

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// earlyKept is how long an event is kept for an instance that has not started.
const earlyKept = 24 * time.Hour

// outside records the messages of instances to instances that are not in the Env.
type outside struct{ sent []sent }

// sent is a message to an instance that does not exist.
type sent struct {
	to    string
	ev    history.Event     // EventSent, or ChildScheduled for a detached start
	start *message.OutInput // the start, if its orchestration is not bound
	at    int64
}

// began removes the events that an instance has received with its start.
func (o *outside) began(id string, now int64) {
	o.sent = slices.DeleteFunc(o.sent, func(s sent) bool {
		return s.to == id && time.Duration(now-s.at)*time.Millisecond < earlyKept
	})
}

// send carries out a message of an instance.
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
		e.send(alone) // the orchestration runs elsewhere, so only the event is recorded
		return
	case out.Kind == message.KindEvent && !here:
		e.outside.sent = append(e.outside.sent, sent{to: out.Instance, at: e.part.Now, ev: &history.EventSent{
			Instance: out.Instance, Name: out.Name, Payload: out.Payload, Effect: out.ID,
		}})
	}
	e.part.accept(out)
}

// leave keeps a start whose orchestration is not bound, because it may still be deployed.
func (e *world) leave(out *message.OutInput, ev history.Event) {
	e.outside.sent = append(e.outside.sent, sent{to: out.Instance, ev: ev, start: out, at: e.part.Now})
}

// startDeployed starts the instances whose orchestration was not bound before and is now.
func (e *world) startDeployed() {
	e.outside.sent = slices.DeleteFunc(e.outside.sent, func(s sent) bool {
		if s.start == nil || !e.code.has(s.start.Name) {
			return false
		}
		e.part.accept(s.start)
		return true
	})
}

// Sent lists all messages of instances to receivers that are not in the Env, in order and in the format of their history events: events
// to instances that did not exist, and detached starts of orchestrations that were neither bound nor faked.
func (e *Env) Sent() []string {
	var all []string
	for _, s := range e.world.outside.sent {
		all = append(all, show.Summary(s.ev))
	}
	return all
}
