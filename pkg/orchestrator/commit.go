package orchestrator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// commit writes a turn and, once it is written, sends its effects.
func (a *actor) commit(in *instance, t *turn) {
	a.to(in, committing)
	t.execution, t.after, t.retry = in.execution(), a.commits, firstRetry
	if t.fold != nil {
		t.debts = debts(in.id, in.execution(), t.fold)
		t.takeLeft()
	}
	c := &store.Commit{
		Instance: in.id, Head: in.head(), Pop: t.pop, Events: t.encoded, Prepend: t.front,
		From: in.status(), Wakeup: a.lookAfter(in, t), MaxUnread: store.UnreadBatch, Execution: t.execution, Due: t.due,
	}
	if t.due != 0 {
		c.Applied = a.horizon.applied.Time
	}
	if len(t.events) > 0 || len(t.front) > 0 {
		c.NewHead = nuid.Next()
		c.Record = record(in, t)
		c.Create, c.Delete = t.leases()
		c.Retain, c.Release = t.keeps(), t.forgone
		if c.Record.Status.Ended() {
			c.Wakeup = sooner(c.Wakeup, a.notBefore(a.keptUntil(c.Record)))
		}
		if t.begins() && c.Execution > keptExecutions {
			c.Prune = c.Execution - keptExecutions
		}
	} else if in.rec != nil && in.rec.Published.Before(in.sent) {
		c.Wakeup = sooner(c.Wakeup, a.clock.now()+a.cfg.Look.Milliseconds()) // the record is not written, and a look has to say it
	}
	a.emit(effect{kind: commitTurn, in: in, turn: t, commit: c})
}

// keptExecutions is how many executions of an instance have a history: the current one and the one before it.
const keptExecutions = 2

// begins reports whether the turn is the first of its execution.
func (t *turn) begins() bool {
	if len(t.events) == 0 {
		return false
	}
	_, ok := t.events[0].(*history.Started)
	return ok
}

// leases says which leases the turn creates and deletes. Who waits at a gate has none before it is let in. One that
// is poisoned has ended without an ack, so its lease is still there.
func (t *turn) leases() (create, remove []store.Lease) {
	for s := range t.letIn {
		create = append(create, store.Lease{Activity: s.ID, Effect: s.Effect})
	}
	for _, e := range t.events {
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
	for _, ev := range t.events {
		s, scheduled := ev.(*history.ActivityScheduled)
		if g, ok := ev.(*history.Granted); ok {
			s = t.fold.Activity(g.Scheduled)
		}
		if s == nil || scheduled && s.Limit != nil && s.Limit.Waiting {
			continue
		}
		if !yield(s) {
			return
		}
	}
}

// lookAfter says when somebody must look if nothing happens after the turn. What it tells others
// must be looked at within one interval: so far does a takeover look back.
func (a *actor) lookAfter(in *instance, t *turn) int64 {
	at := a.nextLook(in)
	if len(t.debts) > 0 || slices.ContainsFunc(t.events, startsChild) {
		return sooner(at, a.clock.now()+a.cfg.Look.Milliseconds())
	}
	return at
}

func startsChild(e history.Event) bool { return e.Kind() == history.KindChildScheduled }

// nextLook says when somebody must look if nothing happens before; 0: nothing is due.
func (a *actor) nextLook(in *instance) int64 {
	var at int64
	soon := a.clock.now() + a.cfg.Look.Milliseconds()
	if len(in.owed) > 0 {
		at = soon
	}
	at = sooner(at, a.notBefore(a.keptUntil(in.rec)))
	s := in.state
	if s == nil || s.End != nil {
		return at
	}
	if s.AdmittedLen() > 0 {
		at = soon
	}
	if s.TicketLen() > 0 {
		ask := in.gateAt
		if ask == 0 {
			ask = a.clock.now() + a.firstGateAsk()
		}
		at = sooner(at, ask)
	}
	if s.ChildLen() > 0 {
		ask := in.askAt
		if ask == 0 {
			ask = soon
		}
		at = sooner(at, ask)
	}
	if due, ok := nextDue(s, in.overdue); ok {
		at = sooner(at, a.notBefore(due))
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
func (a *actor) commitAnswered(m *message) {
	in, t, err := m.in, m.turn, m.err
	switch {
	case err == nil:
		a.committed(in, t, m.commit, m.committed)
		number := m.committed.Number
		if number <= t.after { // it is in the store, and others are not any more
			a.fail(fmt.Errorf("commit %d was acknowledged before as %d: %w", number, t.after, partition.ErrRolledBack))
		}
		a.commits = max(a.commits, number)
	case errors.Is(err, store.ErrConflict):
		a.to(in, idle)
		a.met.conflicts.Inc()
		a.log.Info("a turn was decided on forgotten ground; loading the instance again", "instance", in.id, "error", err)
		a.doubt()
		a.unwind(in)
		a.advance(in)
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrRolledBack):
		a.to(in, idle)
		a.failed("commit", err)
	case redisx.Refused(err): // it checks before it writes, so nothing is written
		a.to(in, idle)
		a.stall(in, stallUnreadable, err.Error())
	default:
		a.failed("commit of "+in.id, err)
		a.later(t.retry, message{kind: commitRetryDue, in: in, turn: t, commit: m.commit})
		t.retry = min(2*t.retry, lastRetry)
	}
}

// committed makes memory what the store now has, and sends the effects.
func (a *actor) committed(in *instance, t *turn, c *store.Commit, done store.Committed) {
	a.to(in, idle)
	a.heard(done.Now)
	a.met.commits.Inc()
	if c.NewHead != "" {
		if len(c.Record.Unread) > 0 {
			a.log.Info("instance ended with unread events", "instance", in.id, "events", history.FormatUnread(c.Record.Unread))
		}
		in.advanceRecord(c)
		delete(a.stalls, in.id)
		a.unserved.drop(in.id)
	}
	for _, u := range in.unread[:min(len(t.pop), len(in.unread))] {
		in.turned = max(in.turned, u.seq())
	}
	in.poison = append(in.poison, t.refused...)
	in.overdue = append(t.overdue, in.overdue...)
	if t.begins() {
		in.startGate = nil // its start says it
	}
	us, err := a.parseUnread(done.Unread)
	in.unread, in.cut, in.read = us, store.Truncated(done.Unread), false
	a.sendEffects(in, t, done)
	a.publishCommit(in, t, c, done.Now)
	if len(c.Prepend) > 0 {
		in.current = current{state: &history.State{}}
		if c.Record.NewIncarnation {
			in.sent, in.shown, in.full, in.searched, in.cancelled = store.Watermark{}, 0, false, false, nil // none of it is its heir's
		}
	}
	if err != nil {
		a.unreadable(in, err)
		return
	}
	if c.Wakeup != 0 {
		a.pollBy(time.Now().Add(time.Duration(c.Wakeup-done.Now) * time.Millisecond))
	}
	a.resume(in, sawHead)
}

// sendEffects sends what the turn asks of the world. All of it may be lost: tasks are found by
// the look, hints by the next renewal, answers by who asks again.
func (a *actor) sendEffects(in *instance, t *turn, done store.Committed) {
	var hints map[string][]queue.Hint
	for _, e := range t.events {
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
				if hints == nil {
					hints = make(map[string][]queue.Hint)
				}
				hints[w] = append(hints[w], queue.Hint{
					Instance: in.id, Execution: t.execution, Activity: e.Scheduled, Effect: t.cancelled[e.Scheduled],
					Reason: e.Reason, By: e.By, Text: e.Text, At: done.Now,
				})
			}
		case *history.ActivityCompleted:
			delete(a.sent, sending{in.id, e.Scheduled})
		case *history.ActivityFailed:
			delete(a.sent, sending{in.id, e.Scheduled})
		}
	}
	for w, hs := range hints {
		a.met.hints.Add(float64(len(hs)))
		a.emit(effect{kind: sendHints, id: w, body: hs})
	}
	in.settles(t)
	a.leaveGates(in, t, allTickets)
	a.startChildren(in, t)
	a.owe(in, t.debts)
	a.noteCancelled(t.debts)
	for _, r := range t.replies {
		a.met.taken.Inc()
		a.reply(in, r)
	}
	if len(t.late) > 0 {
		a.emit(effect{kind: reportLate, id: in.id, turn: t})
	}
	if in.status().Ended() {
		a.answerWaiters(in, true)
	}
	if in.rec != nil && (in.status().Ended() || in.rec.CustomVersion > in.shown) {
		a.showStatus(in)
	}
}

// publish has the task of an activity put into its queue.
func (a *actor) publish(instance string, rec *store.Record, e *history.ActivityScheduled) {
	a.sent[sending{instance, e.ID}] = a.clock.now()
	a.publishing++
	a.met.published.Inc()
	a.emit(effect{kind: publishTask, id: instance, rec: rec, activity: e})
}

// taskAnswered takes the answer of the queue.
func (a *actor) taskAnswered(instance string, id uint64, err error) {
	a.publishing--
	if err == nil {
		a.taskPublished()
		return
	}
	a.met.publishErrors.Inc()
	logFailure(a.log, "task not published, retrying", err, "instance", instance, "activity", id)
	if _, outstanding := a.sent[sending{instance, id}]; outstanding {
		a.sent[sending{instance, id}] = notSent
	}
	a.taskFailed(instance)
}

// discard takes inputs out of the inbox of an instance that does not read them any more.
func (a *actor) discard(in *instance) {
	a.answerWaiters(in, false)
	n, heir := a.answerStarts(in)
	switch {
	case n > 0:
		a.takeOut(in, n)
	case heir != nil && len(in.owed) > 0:
		a.sendOwed(in) // and go on when the stream has the end of the orphan
	case heir != nil:
		a.inherit(in, heir)
	case a.retired(in):
		a.purge(in, nil)
	default:
		a.settle(in)
	}
}

// takeOut pops the first n unread inputs without turning them.
func (a *actor) takeOut(in *instance, n int) {
	t := &turn{in: in}
	if in.rec == nil {
		t.due = 1 // nothing is so old; but inputs that the store has forgotten may be the start that they wait for
	}
	for _, u := range in.unread[:n] {
		t.pop = append(t.pop, u.id)
	}
	a.met.dropped.Add(float64(n))
	a.commit(in, t)
}
