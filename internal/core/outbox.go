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

// Messages of an instance reach other instances as inputs. Two kinds of them are pending, see docs/decisions/0013:
//
//   - a message (an event, a detached start, the cancellation of a child, the end of a child for its parent) is pending until the
//     stream has acknowledged it. in.outbox holds the pending messages in order; rec.Produced and rec.Published record them in the
//     store, later;
//   - the start of a child is pending as long as the child is outstanding.
//
// Crash points: between commit and publish, between publish and its acknowledgement, between that and the recorded watermark. In all of
// them the instance has a wakeup within one reconcile interval, and every message that is not known to be acknowledged is sent again.

const (
	firstRepeats = 3                // reconcile intervals before the start of a child is repeated, if this tenure has sent it
	lastRepeat   = 10 * time.Minute // maximum of the backoff between repeats, which doubles
	repeatBytes  = 4 << 20          // maximum size of the starts that one reconciliation repeats
	publishRetry = time.Second / 2  // delay after a failed publish

	shortMessage = 4 << 10 // maximum bytes of the message of a shortened failure
)

// outbox publishes the messages of instances to other instances.
type outbox struct {
	owner       *Owner
	unsent      int                  // messages whose last publish in this tenure failed
	outstanding map[uint64]*outgoing // publishes that are not answered, by number of the effect
}

// sendEffects sends the effects of a written turn to workers and other instances. All of them may be lost: tasks and messages are repeated by the
// reconciliation, and lost hints cost the time until the next renewal.
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
	in.dropSettled(t)
	c.owner.admission.leaveLimits(in, t, allTickets)
	c.owner.outbox.startChildren(in, t)
	c.owner.outbox.enqueue(in, t.messages)
	c.noteCancelled(t.messages)
	for _, r := range t.Replies {
		c.owner.met[CountIDConflicts]++
		c.owner.outbox.reply(in, r)
	}
	if len(t.Late) > 0 {
		c.owner.emit(Effect{Kind: ReportLate, ID: in.id, Body: &LateReports{Execution: t.execution, Reports: t.Late}})
	}
}

// dropSettled drops the settled children from startedChildren. The cancellation of a child whose start the stream has acknowledged is
// sent without the start.
func (in *instance) dropSettled(t *turn) {
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

// startChildren starts the outstanding children of a turn. Abandoned children are messages of the outbox, and so is the cancellation of
// a child that a later input of the same turn has cancelled; that start precedes its cancellation. It must be sent, because a turn that
// the store has lost may have consumed only the first of the two inputs, and may have started the child.
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
		in.repeatBackoff = o.minRepeatBackoff()
		in.repeatStartsAt = o.owner.clock.now() + in.repeatBackoff.Milliseconds()
	}
}

// startChild publishes the start of a child of the execution that began with s.
func (o *outbox) startChild(in *instance, s *history.Started, e *history.ChildScheduled) {
	in.startsInFlight++
	o.publish(&outgoing{reason: sendStart, from: in, in: childStart(in.id, s, e), start: e})
}

func (o *outbox) minRepeatBackoff() time.Duration {
	return firstRepeats * o.owner.cfg.ReconcileInterval
}

// enqueue adds the messages of a turn to the outbox, and sends them.
func (o *outbox) enqueue(in *instance, ms []*pendingMessage) {
	in.outbox = append(in.outbox, ms...)
	in.trimAcked()
	o.flushOutbox(in)
}

// trimAcked removes the messages before the first that is not acknowledged.
func (in *instance) trimAcked() {
	for len(in.outbox) > 0 && in.outbox[0].acked {
		if mark := in.outbox[0].mark; len(in.outbox) == 1 || in.outbox[1].mark != mark { // the last message of a broadcast
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

// sendMessage publishes a message, or the start that must precede it.
func (o *outbox) sendMessage(in *instance, m *pendingMessage) {
	if m.before == nil {
		o.publish(&outgoing{reason: sendPending, from: in, in: m.in, message: m})
		return
	}
	o.publish(&outgoing{reason: sendStartBefore, from: in, in: *m.before, message: m})
}

// noteCancelled records the marks of the children that a turn has cancelled.
func (c *commits) noteCancelled(ms []*pendingMessage) {
	var marks []string
	for _, m := range ms {
		if m.cancelMark != "" {
			marks = append(marks, m.cancelMark)
		}
	}
	if len(marks) > 0 {
		c.owner.emit(Effect{Kind: NoteCancelled, Body: marks})
	}
}

// reply notifies the parent that has sent a start that this instance is not its child, or how it has ended. The reply
// may be lost: the parent repeats the start.
func (o *outbox) reply(in *instance, msg message.OutInput) {
	o.publish(&outgoing{reason: sendReply, from: in, in: msg})
}

// outgoing is an input in transit to another instance.
type outgoing struct {
	reason  sendReason
	from    *instance // the sender; it may have been parked or dropped since
	in      message.OutInput
	message *pendingMessage         // for sendPending and sendStartBefore
	start   *history.ChildScheduled // for sendStart
	short   bool                    // shortened, because the whole end did not fit into a message
}

// sendReason is the reason for publishing an input.
type sendReason uint8

const (
	sendPending     sendReason = iota + 1 // a message of the outbox
	sendStartBefore                       // the start of a child, before its pending cancellation
	sendStart                             // the start of an outstanding child
	sendReply                             // the reply to the parent that has sent a start
	sendUndo                              // the cancellation or purge of a child whose start a rewind drops
)

// publish publishes an input, and remembers it until it is answered.
func (o *outbox) publish(out *outgoing) {
	out.in.Sender = message.SenderOrchestrator
	o.owner.publishing++
	o.owner.met[CountMessages]++
	n := o.owner.nextNumber()
	o.outstanding[n] = out
	o.owner.emit(Effect{Kind: PublishMessage, ID: out.from.id, Number: n, Input: &out.in})
}

// messagePublished handles the stream's answer to a publish. The end of a child that does not fit into a message is shortened: without
// an end its parent would wait forever.
func (o *outbox) messagePublished(number uint64, err error) {
	out := o.outstanding[number]
	delete(o.outstanding, number)
	o.owner.publishing--
	if err != nil {
		o.owner.met[CountPublishErrors]++
	}
	if out.in.Kind == message.KindDone && unsendable(err) && !out.short {
		o.owner.log.Error("end of child shortened", "instance", out.from.id, "parent", out.in.Instance, "error", err)
		out.in.Done, out.short = shortenEnd(out.from.id, out.in.Done, err), true
		o.publish(out)
		return
	}
	switch out.reason {
	case sendPending:
		o.acknowledged(out.from, out.message, err)
	case sendStartBefore:
		if err != nil { // a start that can never be sent has no child to cancel
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
			o.owner.log.Debug("reply to parent failed", "instance", out.from.id, "parent", out.in.Instance, "error", err)
		}
	}
}

// shortenEnd returns the end of a child without its result, and with a shortened failure.
func shortenEnd(child string, d *message.Done, why error) *message.Done {
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

// acknowledged handles the stream's answer to a message of the outbox.
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
		if !in.retryScheduled { // logged once: thousands may fail at once, and are sent again together
			reportFailure(o.owner.log, "message not published, retrying", err, "instance", in.id, "to", m.in.Instance, "kind", m.in.Kind,
				"messages", len(in.outbox))
		}
		o.retrySoon(in, publishRetry)
		return
	}
	m.acked = true
	if o.owner.instances[in.id] != in {
		return // dropped since; a reconciliation sends the message again, and the receiver deduplicates it
	}
	if in.trimAcked(); len(in.outbox) == 0 {
		o.owner.advance(in)
	}
}

// childStarted handles the stream's answer to the start of a child. A start that failed is soon published again, as if for the first time.
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
		in = o.owner.instance(in.id) // it may have been dropped meanwhile
		in.localInputs = append(in.localInputs, failed)
	default:
		reportFailure(o.owner.log, "child start not published, retrying", err, "instance", in.id, "child", e.Instance)
		in.repeatStartsAt, in.repeatBackoff = 0, 0
	}
	o.retrySoon(in, publishRetry)
}

// unsendable reports an error that is permanent: the message is larger than the server allows, or malformed.
func unsendable(err error) bool {
	return errors.Is(err, message.ErrTooLarge) || errors.Is(err, message.ErrMalformed) || errors.Is(err, message.ErrBadInstance) || errors.Is(err, message.ErrBadName)
}

// retrySoon schedules a retry of failed publishes and limit requests, unless the instance is dropped by then.
func (o *outbox) retrySoon(in *instance, after time.Duration) {
	if in.retryScheduled {
		return
	}
	in.retryScheduled = true
	o.owner.later(after, Message{Kind: retryDue, ID: in.id})
}

// retry flushes the outbox of an instance and reconciles it.
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

// caughtUp continues the instances whose code polls, and repeats the starts of children that this tenure has not sent yet: both had to
// wait until every input accepted before the tenure was ingested.
func (o *outbox) caughtUp() {
	for _, id := range sorted(o.owner.instances) {
		in := o.owner.instances[id]
		if in != nil && (in.observes || in.state != nil && in.state.ChildLen() > 0 && in.repeatStartsAt == 0) {
			in.observes, in.wakeupDue = false, true // even if it is busy: the outstanding request was sent before
			o.owner.advance(in)
		}
	}
}

// repeatChildStarts repeats the starts of outstanding children when their backoff has passed. It waits until the owner has caught up:
// the end of a child may have been accepted already.
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
		o.owner.met[CountStartsRepeated]++
		o.startChild(in, in.state.Started, e)
	}
	in.lastRepeated = 0
	in.repeatBackoff = min(max(2*in.repeatBackoff, o.minRepeatBackoff()), lastRepeat)
	in.repeatStartsAt = now + in.repeatBackoff.Milliseconds()
}
