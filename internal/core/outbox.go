package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
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

// outbox has what instances send to others.
type outbox struct {
	owner    *Owner
	unsent   int                  // messages that were not published, in this tenure
	underway map[uint64]*outgoing // what the stream has not answered
}

// sendEffects sends what the turn asks of workers and other instances. All of it may be lost: tasks and messages are found by the
// reconciliation, hints by the next renewal.
func (c *commits) sendEffects(in *instance, t *turn, done record.Committed) {
	var to hints
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ActivityScheduled:
			if in.state.Activity(e.ID) != nil && !in.state.Waiting(e.ID) { // not cancelled in the same turn
				c.publish(in.id, in.rec, e)
			}
		case *history.Granted:
			if s := in.state.Activity(e.Scheduled); s != nil {
				c.publish(in.id, in.rec, s)
			}
		case *history.ActivityCancelRequested:
			delete(c.sent, sending{in.id, e.Scheduled})
			if w := done.Workers[e.Scheduled]; w != "" {
				to.add(w, hint(in, t.execution, e.Scheduled, t.Cancelled[e.Scheduled], e, done.Now))
			}
		case *history.Paused:
			to = stopHints(in, &history.ActivityCancelRequested{Reason: cancel.Paused, By: e.By, Text: e.Text}, done)
		case *history.ActivityCompleted:
			delete(c.sent, sending{in.id, e.Scheduled})
		case *history.ActivityFailed:
			delete(c.sent, sending{in.id, e.Scheduled})
		}
	}
	c.owner.met[CountHints] += float64(c.owner.sendHints(to))
	in.forgetSettled(t)
	c.owner.admission.leaveGates(in, t, allTickets)
	c.owner.outbox.startChildren(in, t)
	c.owner.outbox.enqueue(in, t.messages)
	c.noteCancelled(t.messages)
	for _, r := range t.Replies {
		c.owner.met[CountTaken]++
		c.owner.outbox.reply(in, r)
	}
	if len(t.Late) > 0 {
		c.owner.emit(Effect{Kind: ReportLate, ID: in.id, Body: &LateReports{Execution: t.execution, Reports: t.Late}})
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

// startChildren starts the children of a turn that are outstanding. The abandoned are among the debts; and so is the cancellation of
// one that a later input of the same turn has taken back, with its start ahead of it: a turn that the store has forgotten
// may have taken only the first of the two inputs, and started it.
func (o *outbox) startChildren(in *instance, t *turn) {
	some := false
	for _, ev := range t.Events {
		e, ok := ev.(*history.ChildScheduled)
		if ok && !e.Detached && !e.Abandon && t.Fold.Child(e.ID) != nil {
			o.startChild(in, t.Fold.Started, e)
			some = true
		}
	}
	if some && in.repeatStartsAt == 0 {
		in.repeatPause = o.firstRepeat()
		in.repeatStartsAt = o.owner.clock.now() + in.repeatPause.Milliseconds()
	}
}

// startChild publishes the start of a child.
func (o *outbox) startChild(in *instance, s *history.Started, e *history.ChildScheduled) {
	in.startsInFlight++
	o.publish(&outgoing{why: sendStart, from: in, in: childStart(in.id, s, e), start: e})
}

func (o *outbox) firstRepeat() time.Duration { return firstRepeats * o.owner.cfg.ReconcileInterval }

// enqueue adds the messages that a turn has decided to the outbox, and sends them.
func (o *outbox) enqueue(in *instance, ds []*pendingMessage) {
	in.outbox = append(in.outbox, ds...)
	in.trimAcked()
	o.flushOutbox(in)
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

// flushOutbox sends the messages that are neither in flight nor acknowledged.
func (o *outbox) flushOutbox(in *instance) {
	for _, m := range in.outbox {
		if !m.inFlight && !m.acked {
			m.inFlight = true
			o.sendMessage(in, m)
		}
	}
}

func (o *outbox) sendMessage(in *instance, m *pendingMessage) {
	if m.before == nil {
		o.publish(&outgoing{why: sendPending, from: in, in: m.in, message: m})
		return
	}
	o.publish(&outgoing{why: sendStartBefore, from: in, in: *m.before, message: m})
}

// noteCancelled notes the children that a turn has cancelled.
func (c *commits) noteCancelled(debts []*pendingMessage) {
	var marks []string
	for _, o := range debts {
		if o.cancelMark != "" {
			marks = append(marks, o.cancelMark)
		}
	}
	if len(marks) > 0 {
		c.owner.emit(Effect{Kind: NoteCancelled, Body: marks})
	}
}

// reply notifies the parent behind a start that this instance is not its child, or how it has ended. It
// may be lost: the parent asks again.
func (o *outbox) reply(in *instance, msg message.OutInput) {
	o.publish(&outgoing{why: sendReply, from: in, in: msg})
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

// publish publishes an input.
func (o *outbox) publish(out *outgoing) {
	out.in.Sender = message.SenderOrchestrator
	o.owner.publishing++
	o.owner.met[CountTold]++
	n := o.owner.nextNumber()
	o.underway[n] = out
	o.owner.emit(Effect{Kind: PublishMessage, ID: out.from.id, Number: n, Input: &out.in})
}

// messagePublished takes the stream's answer. An end that does not fit into a message is shortened: without any its parent would
// wait forever.
func (o *outbox) messagePublished(number uint64, err error) {
	out := o.underway[number]
	delete(o.underway, number)
	o.owner.publishing--
	if err != nil {
		o.owner.met[CountPublishErrors]++
	}
	if out.in.Kind == message.KindDone && unsendable(err) && !out.short {
		o.owner.log.Error("end of child shortened", "instance", out.from.id, "parent", out.in.Instance, "error", err)
		out.in.Done, out.short = inShort(out.from.id, out.in.Done, err), true
		o.publish(out)
		return
	}
	switch out.why {
	case sendPending:
		o.acknowledged(out.from, out.message, err)
	case sendStartBefore:
		if err != nil { // if it can never be sent, there is no child to cancel
			o.acknowledged(out.from, out.message, err)
			return
		}
		out.message.before = nil
		o.sendMessage(out.from, out.message)
	case sendStart:
		o.childStarted(out.from, out.start, err)
	case sendUndo:
		o.owner.operators.undone(out.from, err)
	case sendReply:
		if err != nil {
			o.owner.log.Debug("parent not answered, it asks again", "instance", out.from.id, "parent", out.in.Instance, "error", err)
		}
	}
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

// acknowledged takes the stream's word for a message.
func (o *outbox) acknowledged(in *instance, m *pendingMessage, err error) {
	m.inFlight = false
	if m.failed {
		m.failed = false
		o.unsent--
	}
	if unsendable(err) {
		o.owner.log.Error("message not sendable, dropped", "instance", in.id, "to", m.in.Instance, "kind", m.in.Kind, "error", err)
		err = nil
	}
	if err != nil {
		m.failed = true
		o.unsent++
		if !in.retryScheduled { // thousands may fail at once, and are sent again together
			reportFailure(o.owner.log, "message not published, retrying", err, "instance", in.id, "to", m.in.Instance, "kind", m.in.Kind,
				"messages", len(in.outbox))
		}
		o.retrySoon(in, publishRetry)
		return
	}
	m.acked = true
	if o.owner.instances[in.id] != in {
		return // parked or forgotten since; a reconciliation sends it again, and the receiver recognises it
	}
	if in.trimAcked(); len(in.outbox) == 0 {
		o.owner.advance(in)
	}
}

// childStarted takes the stream's answer. A start that is not accepted is published again soon, as if for the first time.
func (o *outbox) childStarted(in *instance, e *history.ChildScheduled, err error) {
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
		failed.At = o.owner.clock.now()
		in = o.owner.instance(in.id) // it may have been parked or forgotten meanwhile
		in.localInputs = append(in.localInputs, failed)
	default:
		reportFailure(o.owner.log, "child start not published, retrying", err, "instance", in.id, "child", e.Instance)
		in.repeatStartsAt, in.repeatPause = 0, 0
	}
	o.retrySoon(in, publishRetry)
}

// unsendable reports an error that no further attempt mends: the message is larger than this
// server allows, or it is malformed.
func unsendable(err error) bool {
	return errors.Is(err, message.ErrTooLarge) || errors.Is(err, message.ErrMalformed) || errors.Is(err, message.ErrBadInstance) || errors.Is(err, message.ErrBadName)
}

// retrySoon has what could not be published, or asked, tried again, unless the instance has been parked or forgotten by then.
func (o *outbox) retrySoon(in *instance, after time.Duration) {
	if in.retryScheduled {
		return
	}
	in.retryScheduled = true
	o.owner.later(after, Message{Kind: retryDue, ID: in.id})
}

func (o *outbox) retry(id string) {
	in := o.owner.instances[id]
	if in == nil {
		return
	}
	if in.retryScheduled = false; !o.owner.leaving {
		o.flushOutbox(in)
		o.owner.schedule.wake(id)
	}
}

// caughtUp turns the instances whose code polls, and asks at once for the children that this tenure has not asked for yet: both had to
// wait until it had read what has been accepted and answered already.
func (o *outbox) caughtUp() {
	for _, id := range sorted(o.owner.instances) {
		in := o.owner.instances[id]
		if in != nil && (in.observes || in.state != nil && in.state.ChildLen() > 0 && in.repeatStartsAt == 0) {
			in.observes, in.wakeupDue = false, true // behind what is outstanding, too: that was sent when it was too early
			o.owner.advance(in)
		}
	}
}

// repeatChildStarts repeats the starts of the children whose end has not been received, if it is time.
// No start is repeated before what has been answered already has been read.
func (o *outbox) repeatChildStarts(in *instance) {
	o.flushOutbox(in)
	now := o.owner.clock.now()
	if in.state == nil || in.state.ChildLen() == 0 || o.owner.schedule.horizon.began == 0 || in.repeatStartsAt > now {
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
		o.owner.met[CountAsked]++
		o.startChild(in, in.state.Started, e)
	}
	in.lastRepeated = 0
	in.repeatPause = min(max(2*in.repeatPause, o.firstRepeat()), lastRepeat)
	in.repeatStartsAt = now + in.repeatPause.Milliseconds()
}
