package core

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// What an instance sends to others reaches them as their input. Two kinds of it are pending, see
// docs/decisions/0013:
//
//   - a message (event, detached start, cancellation of a child, the end that a parent
//     waits for) is pending until the stream has it. in.outbox has those in memory,
//     in order; rec.Produced and rec.Published record the same in the store, later;
//   - the start of a child is pending as long as the child is outstanding.
//
// Crash points: between commit and publish, between publish and its acknowledgement,
// between that and the mark in the store. In all of them the schedule has the instance
// within one reconcile interval, and what is not known to have arrived is sent again.

const (
	firstRepeats = 3                // reconcile intervals, before a child's start is repeated, if this tenure has sent it
	lastRepeat   = 10 * time.Minute // the pause doubles up to this
	repeatBytes  = 4 << 20          // of starts that one reconciliation repeats
	publishRetry = time.Second / 2  // after a message or a task could not be published

	shortMessage = 4 << 10 // bytes of a failure that is shortened
)

// pendingMessage is a message that the stream is not known to have.
type pendingMessage struct {
	mark   record.Watermark
	in     message.OutInput
	before *message.OutInput // the start that in takes back; nil: the stream has it
	// cancels is the mark of the child that in cancels: see shard.descendants.
	cancelMark string
	inFlight   bool // sent, and not answered
	failed     bool
	acked      bool // the stream has it
}

// newMessages makes messages of those that a fold has, and takes them out of it.
func newMessages(id string, execution uint64, s *history.State) []*pendingMessage {
	ms := s.PendingMessages()
	if len(ms) == 0 {
		return nil
	}
	out := make([]*pendingMessage, len(ms))
	for i, m := range ms {
		out[i] = &pendingMessage{mark: record.Watermark{Execution: execution, Event: m.ID}, in: asInput(id, s, m), before: takenBackStart(id, s, m)}
		if m.Cancel != nil {
			depth, _ := s.Started.Parent.Lineage(m.Cancel)
			out[i].cancelMark = history.Mark(depth, m.Cancel.Effect)
		}
	}
	s.TrimAcked(ms[len(ms)-1].ID)
	return out
}

// takenBackStart is the start that a cancellation concerns. It goes ahead of the cancellation, unless it is known to be
// in the stream: it is no longer pending then, and a cancellation without it would wait for a start that never comes. (That
// of an abandoned child is a message of its own.)
func takenBackStart(id string, s *history.State, m history.Message) *message.OutInput {
	if m.Cancel == nil || m.Cancel.Abandon {
		return nil
	}
	start := childStart(id, s.Started, m.Cancel)
	return &start
}

// asInput is a message as the input of its receiver.
func asInput(id string, s *history.State, m history.Message) message.OutInput {
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

// sent is an event from the instance id, alone or with the start of its receiver.
func sent(id string, from *history.Started, e *history.EventSent) message.OutInput {
	var headers history.Headers
	if from.Headers != "" {
		headers = from.Headers.Outgoing(history.EventSpan(history.Identity{Instance: id, Origin: from.Origin, Execution: from.Execution}, e.ID))
	}
	if s := e.Start; s != nil {
		return message.OutInput{
			Instance: e.Instance, Kind: message.KindStart, Name: s.Name, Version: s.Version, Payload: s.Payload, ID: e.Effect, By: id, Headers: headers,
			Event: &message.OutEvent{Name: e.Name, Payload: e.Payload},
		}
	}
	return message.OutInput{Instance: e.Instance, Kind: message.KindEvent, Name: e.Name, Payload: e.Payload, ID: e.Effect, By: id, Headers: headers}
}

// broadcast is the message of a broadcast to one of its instances, on behalf of the client that has started the sender. One
// for a child has its effect for an id: the instance that has the name later may get another.
func broadcast(id string, from *history.Started, e *history.Broadcast, to string) message.OutInput {
	out := message.OutInput{
		Instance: to, Kind: message.KindOperate, Name: e.Verb, Text: e.Text, ID: cmp.Or(e.Of, history.BroadcastID(id, from.Origin)), By: cmp.Or(from.By, id), Of: e.Of,
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

// done is the message to a parent about the end of its child.
func done(p *history.Parent, end history.Event) message.OutInput {
	d := &message.Done{Scheduled: p.Event, Effect: p.Effect}
	d.Result, d.Failure, _ = outcome(end)
	return message.OutInput{Instance: p.Instance, Kind: message.KindDone, Done: d}
}

// childStart is the start of a child, or of a detached instance, by the execution that has begun as s.
func childStart(id string, s *history.Started, e *history.ChildScheduled) message.OutInput {
	out := message.OutInput{Instance: e.Instance, Kind: message.KindStart, Name: e.Name, Version: e.Version, Payload: e.Payload, By: id, Headers: s.Headers.Outgoing([8]byte{})}
	if !e.Detached {
		depth, above := s.Parent.Lineage(e)
		out.Parent = &history.Parent{
			Instance: id, Origin: s.Origin, Execution: s.Execution, Event: e.ID, Effect: e.Effect, HeldLimits: holds(s), Depth: depth, AncestorMarks: above,
		}
	}
	return out
}

// enqueue adds the messages that a turn has decided to the outbox, and sends them.
func (a *outbox) enqueue(in *instance, ds []*pendingMessage) {
	in.outbox = append(in.outbox, ds...)
	in.trimAcked()
	a.flushOutbox(in)
}

// trimAcked takes out what the stream has, up to the first that it may lack.
func (in *instance) trimAcked() {
	for len(in.outbox) > 0 && in.outbox[0].acked {
		if mark := in.outbox[0].mark; len(in.outbox) == 1 || in.outbox[1].mark != mark { // the last of a broadcast
			in.sent = mark
		}
		in.outbox[0] = nil
		in.outbox = in.outbox[1:]
	}
}

// outgoing is an input in transit to another instance.
type outgoing struct {
	why     sendReason
	from    *instance // as it was: it may have been parked or forgotten since
	in      message.OutInput
	message *pendingMessage         // of sendPending and sendStartBefore
	start   *history.ChildScheduled // of sendStart
	short   bool                    // it is shortened, because all of it did not fit into a message
}

// sendReason is what an input is published for.
type sendReason uint8

const (
	sendPending     sendReason = iota + 1
	sendStartBefore            // the start that a pending cancellation takes back
	sendStart                  // of a child
	sendReply                  // to the parent behind a start
	sendUndo                   // to a child whose start a rewind does not keep
)

// outbox has what instances send to others.
type outbox struct {
	owner    *Owner
	unsent   int                  // messages that were not published, in this tenure
	underway map[uint64]*outgoing // what the stream has not answered
}

// caughtUp turns the instances whose code polls, and asks at once for the children that this tenure has not asked for yet: both had to
// wait until it had read what has been accepted and answered already.
func (a *outbox) caughtUp() {
	for _, id := range sorted(a.owner.instances) {
		in := a.owner.instances[id]
		if in != nil && (in.observes || in.state != nil && in.state.ChildLen() > 0 && in.repeatStartsAt == 0) {
			in.observes, in.wakeupDue = false, true // behind what is outstanding, too: that was sent when it was too early
			a.owner.advance(in)
		}
	}
}

// flushOutbox sends the messages that are neither in flight nor acknowledged.
func (a *outbox) flushOutbox(in *instance) {
	for _, o := range in.outbox {
		if !o.inFlight && !o.acked {
			o.inFlight = true
			a.sendMessage(in, o)
		}
	}
}

func (a *outbox) sendMessage(in *instance, o *pendingMessage) {
	if o.before == nil {
		a.publish(&outgoing{why: sendPending, from: in, in: o.in, message: o})
		return
	}
	a.publish(&outgoing{why: sendStartBefore, from: in, in: *o.before, message: o})
}

// inShort is the end of a child in a few words.
func inShort(child string, d *message.Done, why error) *message.Done {
	f := &history.Failure{
		Code: history.CodeTooLarge, Permanent: true,
		Message: fmt.Sprintf("child %s has completed, and its result cannot be sent: %v; return less, or a reference to it", child, why),
	}
	if is := d.Failure; is != nil {
		f.Code, f.Permanent = is.Code, is.Permanent
		f.Message = fmt.Sprintf("%s (child %s; the rest of its failure cannot be sent: %v)", text.Shorten(is.Message, shortMessage), child, why)
	}
	return &message.Done{Scheduled: d.Scheduled, Effect: d.Effect, Failure: f}
}

// publish publishes an input.
func (a *outbox) publish(out *outgoing) {
	out.in.Sender = message.SenderOrchestrator
	a.owner.publishing++
	a.owner.met[CountTold]++
	n := a.owner.nextNumber()
	a.underway[n] = out
	a.owner.emit(Effect{Kind: PublishMessage, ID: out.from.id, Number: n, Input: &out.in})
}

// messagePublished takes the stream's answer. An end that does not fit into a message is shortened: without any its parent would
// wait forever.
func (a *outbox) messagePublished(number uint64, err error) {
	out := a.underway[number]
	delete(a.underway, number)
	a.owner.publishing--
	if err != nil {
		a.owner.met[CountPublishErrors]++
	}
	if out.in.Kind == message.KindDone && unsendable(err) && !out.short {
		a.owner.log.Error("end of child shortened", "instance", out.from.id, "parent", out.in.Instance, "error", err)
		out.in.Done, out.short = inShort(out.from.id, out.in.Done, err), true
		a.publish(out)
		return
	}
	switch out.why {
	case sendPending:
		a.acknowledged(out.from, out.message, err)
	case sendStartBefore:
		if err != nil { // if it can never be sent, there is no child to cancel
			a.acknowledged(out.from, out.message, err)
			return
		}
		out.message.before = nil
		a.sendMessage(out.from, out.message)
	case sendStart:
		a.childStarted(out.from, out.start, err)
	case sendUndo:
		a.owner.operators.undone(out.from, err)
	case sendReply:
		if err != nil {
			a.owner.log.Debug("parent not answered, it asks again", "instance", out.from.id, "parent", out.in.Instance, "error", err)
		}
	}
}

// acknowledged takes the stream's word for a message.
func (a *outbox) acknowledged(in *instance, o *pendingMessage, err error) {
	o.inFlight = false
	if o.failed {
		o.failed = false
		a.unsent--
	}
	if unsendable(err) {
		a.owner.log.Error("message not sendable, dropped", "instance", in.id, "to", o.in.Instance, "kind", o.in.Kind, "error", err)
		err = nil
	}
	if err != nil {
		o.failed = true
		a.unsent++
		if !in.retryScheduled { // thousands may fail at once, and are sent again together
			reportFailure(a.owner.log, "message not published, retrying", err, "instance", in.id, "to", o.in.Instance, "kind", o.in.Kind,
				"messages", len(in.outbox))
		}
		a.retrySoon(in, publishRetry)
		return
	}
	o.acked = true
	if a.owner.instances[in.id] != in {
		return // parked or forgotten since; a reconciliation sends it again, and the receiver recognises it
	}
	if in.trimAcked(); len(in.outbox) == 0 {
		a.owner.advance(in)
	}
}

// unsendable reports an error that no further attempt mends: the message is larger than this
// server allows, or it is malformed.
func unsendable(err error) bool {
	return errors.Is(err, message.ErrTooLarge) || errors.Is(err, message.ErrMalformed) || errors.Is(err, message.ErrBadInstance) || errors.Is(err, message.ErrBadName)
}

// retrySoon has what could not be published, or asked, tried again, unless the instance has been parked or forgotten by then.
func (a *outbox) retrySoon(in *instance, after time.Duration) {
	if in.retryScheduled {
		return
	}
	in.retryScheduled = true
	a.owner.later(after, Message{Kind: retryDue, ID: in.id})
}

func (a *outbox) retry(id string) {
	in := a.owner.instances[id]
	if in == nil {
		return
	}
	if in.retryScheduled = false; !a.owner.leaving {
		a.flushOutbox(in)
		a.owner.schedule.wake(id)
	}
}

// startChild publishes the start of a child.
func (a *outbox) startChild(in *instance, s *history.Started, e *history.ChildScheduled) {
	in.startsInFlight++
	a.publish(&outgoing{why: sendStart, from: in, in: childStart(in.id, s, e), start: e})
}

// childStarted takes the stream's answer. A start that is not accepted is published again soon, as if for the first time.
func (a *outbox) childStarted(in *instance, e *history.ChildScheduled, err error) {
	in.startsInFlight--
	switch {
	case err == nil:
		if in.startedChildren == nil {
			in.startedChildren = make(map[string]struct{})
		}
		in.startedChildren[e.Effect] = struct{}{}
		return
	case unsendable(err):
		failed := &history.ChildFailed{Scheduled: e.ID, Effect: e.Effect, Failure: history.Failure{
			Code: history.CodeTooLarge, Permanent: true, Message: fmt.Sprintf("child %s cannot be started: %v", e.Instance, err),
		}}
		failed.At = a.owner.clock.now()
		in = a.owner.instance(in.id) // it may have been parked or forgotten meanwhile
		in.localInputs = append(in.localInputs, failed)
	default:
		reportFailure(a.owner.log, "child start not published, retrying", err, "instance", in.id, "child", e.Instance)
		in.repeatStartsAt, in.repeatPause = 0, 0
	}
	a.retrySoon(in, publishRetry)
}

// repeatChildStarts repeats the starts of the children whose end has not been received, if it is time.
// No start is repeated before what has been answered already has been read.
func (a *outbox) repeatChildStarts(in *instance) {
	a.flushOutbox(in)
	now := a.owner.clock.now()
	if in.state == nil || in.state.ChildLen() == 0 || a.owner.schedule.horizon.began == 0 || in.repeatStartsAt > now {
		return
	}
	size := 0
	for _, id := range in.state.Children() {
		if id <= in.lastRepeated {
			continue
		}
		if size > repeatBytes {
			in.repeatStartsAt = now + publishRetry.Milliseconds()
			return
		}
		e := in.state.Child(id)
		size += len(e.Payload.Data) + 512
		in.lastRepeated = id
		a.owner.met[CountAsked]++
		a.startChild(in, in.state.Started, e)
	}
	in.lastRepeated = 0
	in.repeatPause = min(max(2*in.repeatPause, a.firstRepeat()), lastRepeat)
	in.repeatStartsAt = now + in.repeatPause.Milliseconds()
}

// startChildren starts the children of a turn that are outstanding. The abandoned are among the debts; and so is the cancellation of
// one that a later input of the same turn has taken back, with its start ahead of it: a turn that the store has forgotten
// may have taken only the first of the two inputs, and started it.
func (a *outbox) startChildren(in *instance, t *turn) {
	some := false
	for _, ev := range t.Events {
		e, ok := ev.(*history.ChildScheduled)
		if ok && !e.Detached && !e.Abandon && t.Fold.Child(e.ID) != nil {
			a.startChild(in, t.Fold.Started, e)
			some = true
		}
	}
	if some && in.repeatStartsAt == 0 {
		in.repeatPause = a.firstRepeat()
		in.repeatStartsAt = a.owner.clock.now() + in.repeatPause.Milliseconds()
	}
}

// forgetSettled forgets the starts of the children that the events have settled; a cancellation does not take along a start that the
// stream has.
func (in *instance) forgetSettled(t *turn) {
	for _, o := range t.messages {
		if _, ok := in.startedChildren[o.in.Of]; ok && o.before != nil {
			o.before = nil
			delete(in.startedChildren, o.in.Of)
		}
	}
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ChildCompleted:
			delete(in.startedChildren, e.Effect)
		case *history.ChildFailed:
			delete(in.startedChildren, e.Effect)
		}
	}
}

func (a *outbox) firstRepeat() time.Duration { return firstRepeats * a.owner.cfg.ReconcileInterval }

// reply notifies the parent behind a start that this instance is not its child, or how it has ended. It
// may be lost: the parent asks again.
func (a *outbox) reply(in *instance, msg message.OutInput) {
	a.publish(&outgoing{why: sendReply, from: in, in: msg})
}
