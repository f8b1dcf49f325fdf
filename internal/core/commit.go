package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// commits writes turns, and has sent what follows from them.
type commits struct {
	*Owner
	number   int64             // highest that the store has acknowledged
	heads    string            // what heads begin with; the end of each is counted
	watched  time.Time         // changes are published until then: without a watcher a commit costs no message
	sent     map[sending]int64 // when the task of an outstanding activity was published last in this tenure, Unix ms
	resends  resends
	waiters  waiters // for ends
	watchers waiters // of custom statuses
}

// commit writes a turn and, once it is written, sends its effects.
func (a *commits) commit(in *instance, t *turn) {
	a.to(in, committing)
	in.outstanding.turn = t
	t.execution, t.after, t.retry = in.execution(), a.commits.number, firstRecommit
	if t.Fold != nil {
		t.messages = newMessages(in.id, in.execution(), t.Fold)
		t.takeLeft()
	}
	c := &store.Commit{
		Instance: in.id, Head: in.head(), Pop: t.Pop, Events: t.Encoded, Prepend: t.Front,
		From: in.status(), Wakeup: a.commits.wakeupAfter(in, t), MaxUnread: store.UnreadBatch, Execution: t.execution, Due: t.Due,
	}
	if t.Due != 0 {
		c.Applied = a.schedule.horizon.applied.Time
	}
	if len(t.Events) > 0 || len(t.Front) > 0 {
		c.NewHead = a.commits.heads + strconv.FormatUint(a.nextNumber(), 36)
		c.Record = record(in, t)
		c.Create, c.Delete = t.leases()
		c.Retain, c.Release = t.keeps(), t.forgone
		if c.Record.Status.Ended() {
			c.Wakeup = sooner(c.Wakeup, a.schedule.notBefore(a.removals.keptUntil(c.Record)))
		}
		if t.Begins() && c.Execution > keptExecutions {
			c.Prune = c.Execution - keptExecutions
		}
	} else if in.rec != nil && in.rec.Published.Before(in.sent) {
		c.Wakeup = sooner(c.Wakeup, a.clock.now()+a.cfg.Look.Milliseconds()) // the record is not written, and a reconciliation has to say it
	}
	in.outstanding.commit = c
	a.emit(Effect{Kind: CommitTurn, ID: in.id, Commit: c, Decided: &t.Decided})
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

// leases says which leases the turn creates and deletes. Who waits at a gate has none before it is let in. One that
// is poisoned has ended without an ack, so its lease is still there.
func (t *turn) leases() (create, remove []store.Lease) {
	for s := range t.letIn {
		create = append(create, store.Lease{Activity: s.ID, Effect: s.Effect})
	}
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ActivityCancelRequested:
			remove = append(remove, store.Lease{Activity: e.Scheduled})
		case *history.ActivityFailed:
			if e.Failure.Code == history.CodePoison {
				remove = append(remove, store.Lease{Activity: e.Scheduled})
			}
		}
	}
	return create, remove
}

// letIn gives the activities that the turn lets begin: those that it schedules and that need not wait, and those that have waited.
func (t *turn) letIn(yield func(*history.ActivityScheduled) bool) {
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

// wakeupAfter says when somebody must look if nothing happens after the turn. What it tells others
// must be reconciled within one interval: so far does a takeover look back.
func (a *commits) wakeupAfter(in *instance, t *turn) int64 {
	s := in.state
	if t.Fold != nil {
		s = t.Fold
	}
	at := a.commits.nextWakeup(in, s)
	if len(t.messages) > 0 || slices.ContainsFunc(t.Events, startsChild) {
		return sooner(at, a.clock.now()+a.cfg.Look.Milliseconds())
	}
	return at
}

func startsChild(e history.Event) bool { return e.Kind() == history.KindChildScheduled }

// nextWakeup says when somebody must look if nothing happens before; 0: nothing is due.
func (a *commits) nextWakeup(in *instance, s *history.State) int64 {
	var at int64
	soon := a.clock.now() + a.cfg.Look.Milliseconds()
	if len(in.outbox) > 0 {
		at = soon
	}
	at = sooner(at, a.schedule.notBefore(a.removals.keptUntil(in.rec)))
	if s == nil || s.End != nil {
		return at
	}
	if s.AdmittedLen() > 0 {
		at = soon
	}
	if s.TicketLen() > 0 {
		ask := in.gateAt
		if ask == 0 {
			ask = a.clock.now() + a.admission.firstGateAsk()
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
	if due, ok := NextDue(s, in.overdue); ok {
		at = sooner(at, a.schedule.notBefore(due))
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
// tells by its new head whether it has it.
func (a *commits) commitAnswered(in *instance, t *turn, c *store.Commit, m *Message) {
	err := m.Err
	switch {
	case err == nil:
		a.commits.committed(in, t, c, m.Committed)
		number := m.Committed.Number
		if number <= t.after { // it is in the store, and others are not any more
			a.fail(fmt.Errorf("commit %d was acknowledged before as %d: %w", number, t.after, store.ErrRolledBack))
		}
		a.commits.number = max(a.commits.number, number)
	case errors.Is(err, store.ErrConflict):
		a.to(in, idle)
		a.met.Conflicts.Inc()
		a.log.Info("a turn was decided on forgotten ground; loading the instance again", "instance", in.id, "error", err)
		a.leases.doubt()
		a.unload(in)
		a.advance(in)
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrRolledBack):
		a.to(in, idle)
		a.storeFailed("commit", err)
	case errors.Is(err, ErrRefused): // it checks before it writes, so nothing is written
		a.to(in, idle)
		a.removals.stall(in, stallUnreadable, err.Error())
	default:
		a.storeFailed("commit of "+in.id, err)
		a.later(t.retry, Message{Kind: commitRetryDue, ID: in.id})
		t.retry = min(2*t.retry, lastRecommit)
	}
}

// committed makes memory what the store now has, and sends the effects.
func (a *commits) committed(in *instance, t *turn, c *store.Commit, done store.Committed) {
	a.to(in, idle)
	a.sawClock(done.Now)
	a.met.Commits.Inc()
	if c.NewHead != "" {
		if len(c.Record.Unread) > 0 {
			a.log.Info("instance ended with unread events", "instance", in.id, "events", history.FormatUnread(c.Record.Unread))
		}
		in.rec = AdvanceRecord(in.rec, c)
		delete(a.removals.stalls, in.id)
		a.leases.unlist(in.id)
		if err := in.fold(t); err != nil {
			a.removals.stall(in, stallUnreadable, err.Error())
			return
		}
	}
	for _, u := range in.unread[:min(len(t.Pop), len(in.unread))] {
		in.turned = max(in.turned, u.seq())
	}
	in.localInputs = append(in.localInputs, t.refused...)
	in.overdue = append(t.Overdue, in.overdue...)
	if t.Begins() {
		in.startGate = nil // its start says it
	}
	us, err := a.inbox.parseUnread(done.Unread)
	in.unread, in.cut, in.needsInboxRead = us, store.Truncated(done.Unread), false
	a.commits.sendEffects(in, t, done)
	a.commits.publishCommit(in, t, c, done.Now)
	if len(c.Prepend) > 0 {
		a.unloadCode(in)
		in.current = current{state: &history.State{}}
		if c.Record.NewIncarnation {
			in.sent, in.notifiedStatusVersion, in.inboxOverflowed, in.searched, in.cancelled = store.Watermark{}, 0, false, false, nil // none of it is its successor's
		}
	}
	if err != nil {
		a.inbox.unreadable(in, err)
		return
	}
	if c.Wakeup != 0 {
		a.schedule.pollBy(a.clock.wall.Add(time.Duration(c.Wakeup-done.Now) * time.Millisecond))
	}
	a.resume(in, sawHead)
}

// fold makes the state of the instance what the turn has made of it.
func (in *instance) fold(t *turn) error {
	if t.Fold == nil || t.Fold == in.state {
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

// sendEffects sends what the turn asks of the world. All of it may be lost: tasks are found by
// the reconciliation, hints by the next renewal, answers by who asks again.
func (a *commits) sendEffects(in *instance, t *turn, done store.Committed) {
	var hints map[string][]queue.Hint
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ActivityScheduled:
			if in.state.Activity(e.ID) != nil && !in.state.Waiting(e.ID) { // not cancelled in the same turn
				a.commits.publish(in.id, in.rec, e)
			}
		case *history.Granted:
			if s := in.state.Activity(e.Scheduled); s != nil {
				a.commits.publish(in.id, in.rec, s)
			}
		case *history.ActivityCancelRequested:
			delete(a.commits.sent, sending{in.id, e.Scheduled})
			if w := done.Workers[e.Scheduled]; w != "" {
				if hints == nil {
					hints = make(map[string][]queue.Hint)
				}
				hints[w] = append(hints[w], queue.Hint{
					Instance: in.id, Execution: t.execution, Activity: e.Scheduled, Effect: t.Cancelled[e.Scheduled],
					Reason: e.Reason, By: e.By, Text: e.Text, At: done.Now,
				})
			}
		case *history.ActivityCompleted:
			delete(a.commits.sent, sending{in.id, e.Scheduled})
		case *history.ActivityFailed:
			delete(a.commits.sent, sending{in.id, e.Scheduled})
		}
	}
	for _, w := range sorted(hints) {
		hs := hints[w]
		a.met.Hints.Add(float64(len(hs)))
		a.emit(Effect{Kind: SendHints, ID: w, Body: hs})
	}
	in.forgetSettled(t)
	a.admission.leaveGates(in, t, allTickets)
	a.outbox.startChildren(in, t)
	a.outbox.enqueue(in, t.messages)
	a.commits.noteCancelled(t.messages)
	for _, r := range t.Replies {
		a.met.Taken.Inc()
		a.outbox.reply(in, r)
	}
	if len(t.Late) > 0 {
		a.emit(Effect{Kind: ReportLate, ID: in.id, Body: &LateReports{Execution: t.execution, Reports: t.Late}})
	}
	if in.status().Ended() {
		a.commits.answerWaiters(in, true)
	}
	if in.rec != nil && (in.status().Ended() || in.rec.CustomVersion > in.notifiedStatusVersion) {
		a.commits.showStatus(in)
	}
}

// publish has the task of an activity put into its queue.
func (a *commits) publish(instance string, rec *store.Record, e *history.ActivityScheduled) {
	a.commits.sent[sending{instance, e.ID}] = a.clock.now()
	a.publishing++
	a.met.Published.Inc()
	a.emit(Effect{Kind: PublishTask, ID: instance, Rec: rec, Activity: e})
}

// taskAnswered takes the answer of the queue.
func (a *commits) taskAnswered(instance string, id uint64, err error) {
	a.publishing--
	if err == nil {
		a.commits.taskPublished()
		return
	}
	a.met.PublishErrors.Inc()
	reportFailure(a.log, "task not published, retrying", err, "instance", instance, "activity", id)
	if _, outstanding := a.commits.sent[sending{instance, id}]; outstanding {
		a.commits.sent[sending{instance, id}] = notSent
	}
	a.commits.taskFailed(instance)
}

// discard takes inputs out of the inbox of an instance that does not read them any more.
func (a *commits) discard(in *instance) {
	a.commits.answerWaiters(in, false)
	n, successor := a.turns.answerStarts(in)
	switch {
	case n > 0:
		a.commits.takeOut(in, n)
	case successor != nil && len(in.outbox) > 0:
		a.outbox.flushOutbox(in) // and go on when the stream has the end of the orphan
	case successor != nil:
		a.turns.promoteSuccessor(in, successor)
	case a.removals.retired(in):
		a.removals.purge(in, nil)
	default:
		a.leases.settle(in)
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
	}
	a.met.Dropped.Add(float64(n))
	a.commits.commit(in, t)
}
