package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// commits writes turns, and has sent what follows from them.
type commits struct {
	owner    *Owner
	number   int64             // highest that the store has acknowledged
	heads    string            // what heads begin with; the end of each is counted
	watched  time.Time         // changes are published until then: without a watcher a commit costs no message
	sent     map[sending]int64 // when the task of an outstanding activity was published last in this tenure, Unix ms
	resends  resends
	waiters  waiters // for ends
	watchers waiters // of custom statuses
	updaters waiters // of answers, by instance and update: see updates.go
}

// commit writes a turn and, once it is written, sends its effects.
func (a *commits) commit(in *instance, t *turn) {
	delete(a.owner.operators.held, in.id)
	t.execution, t.after, t.retry = in.execution(), a.number, firstRecommit
	if t.imported {
		t.execution = t.Fold.Execution()
	}
	if t.Fold != nil {
		t.messages = newMessages(in.id, in.execution(), t.Fold)
		t.takeLeft()
	}
	c := &record.Commit{
		Instance: in.id, Head: in.head(), Pop: t.Pop, Events: t.Encoded, Prepend: t.Front,
		From: in.status(), Wakeup: a.wakeupAfter(in, t), MaxUnread: record.UnreadBatch, Execution: t.execution, Due: t.Due,
	}
	if t.Due != 0 {
		c.Applied = a.owner.schedule.horizon.applied.Time
	}
	if len(t.Events) > 0 || len(t.Front) > 0 || t.noted {
		c.NewHead = a.heads + strconv.FormatUint(a.owner.nextNumber(), 36)
		c.Record = changes(in, t)
		c.Reindex(in.rec)
		if !t.imported {
			c.Create, c.Delete = t.leases()
			c.Retain, c.Release = t.keeps(), t.forgone
		}
		if c.Record.Status.Ended() {
			c.Wakeup = sooner(c.Wakeup, a.owner.schedule.notBefore(a.owner.removals.keptUntil(c.Record)))
		}
		if t.Begins() && c.Execution > keptExecutions {
			c.Prune = c.Execution - keptExecutions
		}
	} else if in.rec != nil && in.rec.Published.Before(in.sent) {
		c.Wakeup = sooner(c.Wakeup, a.owner.clock.now()+a.owner.cfg.ReconcileInterval.Milliseconds()) // the record is not written, and a reconciliation has to say it
	}
	c.Answers = t.answers()
	made := &t.Decided
	if t.imported { // it is neither measured nor traced again
		made = &Decided{Made: Made{Fold: t.Fold}}
	}
	a.owner.request(in, committing, outstanding{turn: t, commit: c}, Effect{Kind: CommitTurn, Commit: c, Decided: made})
}

// repeat sends a commit again, as it was.
func (a *commits) repeat(in *instance, o outstanding) {
	a.owner.emit(Effect{Kind: CommitTurn, ID: in.id, Commit: o.commit, Decided: &o.turn.Decided})
}

// The pause before a commit is sent again whose fate is unknown doubles from the first to the last.
const (
	firstRecommit = 50 * time.Millisecond
	lastRecommit  = 2 * time.Second
)

// keptExecutions is how many executions of an instance have a history: the current one and the one before it.
const keptExecutions = 2

// Begins reports whether the turn is the first of its execution.
func (t *Decided) Begins() bool {
	if len(t.Events) == 0 {
		return false
	}
	_, ok := t.Events[0].(*history.Started)
	return ok
}

// leases returns the leases that the turn creates and deletes. A waiter at a gate has none before it is admitted. An activity that
// is poisoned has ended without an ack, so its lease is still there.
func (t *turn) leases() (create, remove []record.Lease) {
	for s := range t.LetIn {
		create = append(create, record.Lease{Activity: s.ID, Effect: s.Effect})
	}
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ActivityCancelRequested:
			remove = append(remove, record.Lease{Activity: e.Scheduled})
		case *history.Paused:
			remove = append(remove, t.stopped(e)...)
		case *history.ActivityFailed:
			if e.Failure.Code == history.CodePoison {
				remove = append(remove, record.Lease{Activity: e.Scheduled})
			}
		}
	}
	return create, remove
}

// LetIn gives the activities that the turn lets begin: those that it schedules and that need not wait, and those that have waited.
func (t *Decided) LetIn(yield func(*history.ActivityScheduled) bool) {
	for _, ev := range t.Events {
		s, scheduled := ev.(*history.ActivityScheduled)
		if g, ok := ev.(*history.Granted); ok {
			s = t.Fold.Activity(g.Scheduled)
		}
		if s == nil || scheduled && s.Limit != nil && s.Limit.Waiting {
			continue
		}
		if !yield(s) {
			return
		}
	}
}

// wakeupAfter returns when the instance must be reconciled if nothing happens after the turn. What the turn sends to other
// instances must be reconciled within one interval: that is how far a takeover looks back.
func (a *commits) wakeupAfter(in *instance, t *turn) int64 {
	s := in.state
	if t.Fold != nil {
		s = t.Fold
	}
	at := a.nextWakeup(in, s)
	if len(t.messages) > 0 || slices.ContainsFunc(t.Events, startsChild) {
		return sooner(at, a.owner.clock.now()+a.owner.cfg.ReconcileInterval.Milliseconds())
	}
	return at
}

func startsChild(e history.Event) bool { return e.Kind() == history.KindChildScheduled }

// nextWakeup returns when the instance must be reconciled if nothing happens before; 0: nothing is due.
func (a *commits) nextWakeup(in *instance, s *history.State) int64 {
	var at int64
	soon := a.owner.clock.now() + a.owner.cfg.ReconcileInterval.Milliseconds()
	if len(in.outbox) > 0 {
		at = soon
	}
	at = sooner(at, a.owner.schedule.notBefore(a.owner.removals.keptUntil(in.rec)))
	if s == nil || s.End != nil {
		return at
	}
	if start := in.delayed(); start != nil {
		at = sooner(at, a.owner.schedule.notBefore(start.StartAt))
	}
	if d := in.deadline(s); d != 0 && s.PausedBy() == nil {
		at = sooner(at, a.owner.schedule.notBefore(d))
	}
	if s.AdmittedLen() > 0 {
		at = soon
	}
	if s.TicketLen() > 0 {
		ask := in.gateAt
		if ask == 0 {
			ask = a.owner.clock.now() + a.owner.admission.firstGateAsk()
		}
		at = sooner(at, ask)
	}
	if s.ChildLen() > 0 {
		ask := in.repeatStartsAt
		if ask == 0 || in.startsInFlight > 0 { // the stream may lack one: the next owner of the partition must find that
			ask = soon
		}
		at = sooner(at, ask)
	}
	if due, ok := NextDue(s, in.overdue); ok && s.PausedBy() == nil {
		at = sooner(at, a.owner.schedule.notBefore(due))
	}
	return at
}

// sooner is the earlier of two times, of which zero is none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// commitAnswered sorts the answers of a commit. One whose fate is unknown is sent again as it was, and never decided again: the store
// recognizes it by its new head.
func (a *commits) commitAnswered(in *instance, o outstanding, done record.Committed, err error) {
	t, known := o.turn, err == nil || errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrRefused) || endsTenure(err)
	if !known {
		a.owner.storeFailed("commit of "+in.id, err)
		a.owner.later(t.retry, Message{Kind: commitRetryDue, ID: in.id})
		t.retry = min(2*t.retry, lastRecommit)
		return
	}
	a.owner.to(in, idle)
	switch {
	case err == nil:
		a.committed(in, t, o.commit, done)
		a.acknowledged(done.Number, t.after)
	case errors.Is(err, record.ErrConflict):
		a.owner.met[CountConflicts]++
		a.owner.log.Info("commit conflict, reloading instance", "instance", in.id, "error", err)
		a.owner.leases.doubt()
		a.owner.unload(in)
		a.owner.advance(in)
	case errors.Is(err, record.ErrRefused): // it checks before it writes, so nothing is written
		a.owner.removals.stall(in, stallUnreadable, err.Error())
	default:
		a.owner.storeFailed("commit", err)
	}
}

// acknowledged notes the number of a commit. One that is not greater than what was acknowledged when it was decided ends the tenure: it is
// in the store, and others are not any more.
func (a *commits) acknowledged(number, before int64) bool {
	if number <= before {
		a.owner.fail(fmt.Errorf("commit %d was acknowledged before as %d: %w", number, before, record.ErrRolledBack))
		return false
	}
	a.number = max(a.number, number)
	return true
}

// committed makes memory what the store now has, and sends the effects.
func (a *commits) committed(in *instance, t *turn, c *record.Commit, done record.Committed) {
	a.owner.clock.set(done.Now)
	a.owner.met[CountCommits]++
	_, stalled := a.owner.removals.stalls[in.id]
	if c.NewHead != "" {
		if len(c.Record.Unread) > 0 {
			a.owner.log.Info("instance ended with unread events", "instance", in.id, "events", history.FormatUnread(c.Record.Unread))
		}
		in.rec = AdvanceRecord(in.rec, c)
		delete(a.owner.removals.stalls, in.id)
		a.owner.leases.unlist(in.id)
		if err := in.fold(t); err != nil {
			a.owner.removals.stall(in, stallUnreadable, err.Error())
			return
		}
	}
	for _, u := range in.unread[:min(len(t.Pop), len(in.unread))] {
		in.turned = max(in.turned, u.seq())
	}
	in.localInputs = append(in.localInputs, t.refused...)
	in.overdue = append(t.Overdue, in.overdue...)
	if t.Begins() {
		in.startGate = nil // its start records it
	}
	us, err := a.owner.inbox.parseUnread(done.Unread)
	in.unread, in.cut, in.needsInboxRead = us, record.Truncated(done.Unread), false
	if !t.imported {
		a.sendEffects(in, t, done)
		a.replyUpdates(in, t)
	}
	a.answerCommit(in)
	a.publishCommit(in, t, c, stalled, done.Now)
	if len(c.Prepend) > 0 {
		a.owner.unloadCode(in)
		in.current = current{state: &history.State{}}
		if c.Record.NewIncarnation {
			in.sent, in.notifiedStatusVersion, in.inboxOverflowed, in.searched, in.cancelled = record.Watermark{}, 0, false, false, nil // none of it is its successor's
		}
	}
	if t.noted {
		a.owner.unload(in) // the code in memory lacks what was recorded
		a.owner.schedule.wake(in.id)
		return
	}
	if err != nil {
		a.owner.inbox.unreadable(in, err)
		return
	}
	in.wakeupDue = in.wakeupDue && awaits(in) // otherwise the wakeup that the commit has set is enough
	if c.Wakeup != 0 {
		a.owner.schedule.pollBy(a.owner.clock.wall.Add(time.Duration(c.Wakeup-done.Now) * time.Millisecond))
	}
	a.owner.resume(in, sawHead)
}

// fold makes the state of the instance what the turn has made of it.
func (in *instance) fold(t *turn) error {
	if t.Fold == nil {
		return nil
	}
	if in.state == nil {
		in.state = &history.State{}
	}
	for _, ev := range t.Events {
		if err := in.state.Apply(ev); err != nil {
			return err
		}
	}
	in.state.TakeReleased() // the turn has them, and the messages
	in.state.TrimAcked(in.state.Len)
	return nil
}

// sendEffects sends what the turn asks of workers and other instances. All of it may be lost: tasks and messages are found by the
// reconciliation, hints by the next renewal.
func (a *commits) sendEffects(in *instance, t *turn, done record.Committed) {
	var to hints
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ActivityScheduled:
			if in.state.Activity(e.ID) != nil && !in.state.Waiting(e.ID) { // not cancelled in the same turn
				a.publish(in.id, in.rec, e)
			}
		case *history.Granted:
			if s := in.state.Activity(e.Scheduled); s != nil {
				a.publish(in.id, in.rec, s)
			}
		case *history.ActivityCancelRequested:
			delete(a.sent, sending{in.id, e.Scheduled})
			if w := done.Workers[e.Scheduled]; w != "" {
				to.add(w, hint(in, t.execution, e.Scheduled, t.Cancelled[e.Scheduled], e, done.Now))
			}
		case *history.Paused:
			to = stopHints(in, &history.ActivityCancelRequested{Reason: cancel.Paused, By: e.By, Text: e.Text}, done)
		case *history.ActivityCompleted:
			delete(a.sent, sending{in.id, e.Scheduled})
		case *history.ActivityFailed:
			delete(a.sent, sending{in.id, e.Scheduled})
		}
	}
	a.owner.met[CountHints] += float64(a.owner.sendHints(to))
	in.forgetSettled(t)
	a.owner.admission.leaveGates(in, t, allTickets)
	a.owner.outbox.startChildren(in, t)
	a.owner.outbox.enqueue(in, t.messages)
	a.noteCancelled(t.messages)
	for _, r := range t.Replies {
		a.owner.met[CountTaken]++
		a.owner.outbox.reply(in, r)
	}
	if len(t.Late) > 0 {
		a.owner.emit(Effect{Kind: ReportLate, ID: in.id, Body: &LateReports{Execution: t.execution, Reports: t.Late}})
	}
}

// publish has the task of an activity put into its queue.
func (a *commits) publish(instance string, rec *record.Record, e *history.ActivityScheduled) {
	a.sent[sending{instance, e.ID}] = a.owner.clock.now()
	a.owner.publishing++
	a.owner.met[CountPublished]++
	var headers history.Headers
	if in := a.owner.instances[instance]; in != nil && in.state != nil && in.state.Started != nil {
		headers = in.state.Started.Headers
	}
	a.owner.emit(Effect{Kind: PublishTask, ID: instance, Task: Task{Rec: rec, Activity: e, Headers: headers}})
}

// discard takes inputs out of the inbox of an instance that does not read them any more.
func (a *commits) discard(in *instance) {
	a.answerWaiters(in, false)
	n, successor := a.owner.turns.answerStarts(in)
	switch {
	case n > 0:
		a.takeOut(in, n)
	case successor != nil && len(in.outbox) > 0:
		a.owner.outbox.flushOutbox(in) // and go on when the stream has the end of the orphan
	case successor != nil:
		a.owner.turns.promoteSuccessor(in, successor)
	case a.owner.removals.retired(in):
		a.owner.removals.purge(in, nil)
	default:
		a.owner.leases.settle(in)
	}
}

// takeOut pops the first n unread inputs without turning them.
func (a *commits) takeOut(in *instance, n int) {
	t := &turn{in: in}
	if in.rec == nil {
		t.Due = 1 // nothing is so old; but inputs that the store has forgotten may be the start that they wait for
	}
	for _, u := range in.unread[:n] {
		t.Pop = append(t.Pop, u.ID)
		t.leave(u)
	}
	a.owner.met[CountDropped] += float64(n)
	a.commit(in, t)
}
