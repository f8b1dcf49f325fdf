package core

import (
	"cmp"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/propagate"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// pendingMessage is a message that is not known to be acknowledged by the stream, or waits for one before it.
type pendingMessage struct {
	mark       record.Watermark
	in         message.OutInput
	before     *message.OutInput // the start that must precede in, its cancellation; nil: none, or the stream has acknowledged it
	cancelMark string            // mark of the child that in cancels: see shard.descendants
	inFlight   bool              // published and not answered
	failed     bool              // the last publish failed
	acked      bool              // the stream has acknowledged it
}

// newMessages takes the pending messages out of a state.
func newMessages(id string, execution uint64, s *fold.State) []*pendingMessage {
	ms := s.PendingMessages()
	if len(ms) == 0 {
		return nil
	}
	out := make([]*pendingMessage, len(ms))
	for i, m := range ms {
		out[i] = &pendingMessage{mark: record.Watermark{Execution: execution, Event: m.ID}, in: asInput(id, s, m)}
		if c := m.Cancel; c != nil {
			depth, _ := effectid.Lineage(s.Started.Parent, c)
			out[i].cancelMark = effectid.Mark(depth, c.Effect)
			if !c.Abandon { // the start of an abandoned child is a message of its own; any other start is no longer pending now
				start := childStart(id, s.Started, c)
				out[i].before = &start
			}
		}
	}
	s.TrimAcked(ms[len(ms)-1].ID)
	return out
}

// asInput returns a message as the input of its receiver.
func asInput(id string, s *fold.State, m fold.Message) message.OutInput {
	switch e := m.Event.(type) {
	case *history.EventSent:
		return sent(id, s.Started, e)
	case *history.Broadcast:
		return broadcast(id, s.Started, e, m.To)
	case *history.ChildScheduled:
		return childStart(id, s.Started, e)
	case *history.ChildCancelRequested:
		by := e.By
		if by == "" {
			by = id
		}
		return message.OutInput{Instance: m.Cancel.Instance, Kind: message.KindCancel, Of: m.Cancel.Effect, Reason: e.Reason, By: by, Text: e.Text}
	default:
		return done(s.Started.Parent, m.Event)
	}
}

// sent returns the message of an event from the instance id, alone or with the start of its receiver.
func sent(id string, from *history.Started, e *history.EventSent) message.OutInput {
	var headers history.Headers
	if from.Headers != "" {
		headers = propagate.Outgoing(from.Headers, effectid.EventSpan(effectid.Identity{Instance: id, Origin: from.Origin, Execution: from.Execution}, e.ID))
	}
	if s := e.Start; s != nil {
		return message.OutInput{
			Instance: e.Instance, Kind: message.KindStart, Name: s.Name, Version: s.Version, Payload: s.Payload, ID: e.Effect, By: id, Headers: headers,
			Event: &message.OutEvent{Name: e.Name, Payload: e.Payload},
		}
	}
	return message.OutInput{Instance: e.Instance, Kind: message.KindEvent, Name: e.Name, Payload: e.Payload, ID: e.Effect, By: id, Headers: headers}
}

// broadcast returns the message of a broadcast to one of its instances, on behalf of the client that has started the sender. The id of a
// message to a child is the child's effect id, so that a later instance with the same id may receive another one.
func broadcast(id string, from *history.Started, e *history.Broadcast, to string) message.OutInput {
	out := message.OutInput{
		Instance: to, Kind: message.KindOperate, Name: e.Verb, Text: e.Text, ID: cmp.Or(e.Of, effectid.Broadcast(id, from.Origin)), By: cmp.Or(from.By, id), Of: e.Of,
		Operate: message.Operate{Stop: e.Stop, Start: e.Start, To: e.To},
	}
	switch e.Verb {
	case history.BroadcastEvent:
		out.Kind, out.Name, out.Payload = message.KindEvent, e.Name, e.Payload
	case history.BroadcastCancel:
		out.Kind, out.Name = message.KindCancel, ""
	case history.BroadcastPurge:
		out.Kind, out.Name, out.Force = message.KindPurge, "", e.Force
	}
	return out
}

// childStart returns the start of a child, or of a detached instance, by the execution that began with s.
func childStart(id string, s *history.Started, e *history.ChildScheduled) message.OutInput {
	out := message.OutInput{Instance: e.Instance, Kind: message.KindStart, Name: e.Name, Version: e.Version, Payload: e.Payload, By: id, Headers: propagate.Outgoing(s.Headers, [8]byte{})}
	if !e.Detached {
		depth, above := effectid.Lineage(s.Parent, e)
		out.Parent = &history.Parent{
			Instance: id, Origin: s.Origin, Execution: s.Execution, Event: e.ID, Effect: e.Effect, HeldLimits: heldLimits(s), Depth: depth, AncestorMarks: above,
		}
	}
	return out
}

// done returns the message to a parent about the end of its child.
func done(p *history.Parent, end history.Event) message.OutInput {
	d := &message.Done{Scheduled: p.Event, Effect: p.Effect}
	d.Result, d.Failure, _ = outcome(end)
	return message.OutInput{Instance: p.Instance, Kind: message.KindDone, Done: d}
}

// outcome returns the result or the failure of the end of an instance; ok is false for any other event.
func outcome(end history.Event) (result history.Payload, failure *history.Failure, ok bool) {
	switch e := end.(type) {
	case *history.Completed:
		return e.Result, nil, true
	case *history.Failed:
		return history.Payload{}, &e.Failure, true
	case *history.Cancelled:
		return history.Payload{}, &e.Failure, true
	default:
		return history.Payload{}, nil, false
	}
}
