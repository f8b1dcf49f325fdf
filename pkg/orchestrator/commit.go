package orchestrator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// commit writes a turn and, once it is written, sends its effects. The instance is busy.
func (a *actor) commit(in *instance, t *turn) {
	in.missed = false
	t.execution, t.after = in.execution(), a.tenure.Commits()
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
	a.send(in, t, c, firstRetry)
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

// send sends a commit until its fate is known. It is never decided again: the store tells by
// its new head whether it has it.
func (a *actor) send(in *instance, t *turn, c *store.Commit, pause time.Duration) {
	a.store.Commit(a.st, c, func(done store.Committed, err error) {
		failpoint.Here("orchestrator.committed")
		a.box.post(func() {
			switch {
			case err == nil:
				a.committed(in, t, c, done)
				if done.Number <= t.after { // it is in the store, and others are not any more
					a.fail(fmt.Errorf("commit %d was acknowledged before as %d: %w", done.Number, t.after, partition.ErrRolledBack))
				}
				a.tenure.Committed(done.Number)
			case errors.Is(err, store.ErrConflict):
				a.end(in)
				a.met.conflicts.Inc()
				a.log.Info("a turn was decided on forgotten ground; loading the instance again", "instance", in.id, "error", err)
				a.doubt()
				a.unwind(in)
				a.advance(in)
			case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrRolledBack):
				a.end(in)
				a.failed("commit", err)
			case redisx.Refused(err): // it checks before it writes, so nothing is written
				a.end(in)
				a.stall(in, stallUnreadable, err.Error())
			default:
				a.failed("commit of "+in.id, err)
				a.again(in, t, c, pause)
			}
		})
	})
}

// again repeats a commit after a pause.
func (a *actor) again(in *instance, t *turn, c *store.Commit, pause time.Duration) {
	a.waits.Go(func() {
		next := wait(a.life, pause)
		a.box.post(func() {
			a.send(in, t, c, next)
		})
	})
}

// committed makes memory what the store now has, and sends the effects.
func (a *actor) committed(in *instance, t *turn, c *store.Commit, done store.Committed) {
	a.end(in)
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
	in.unread, in.cut, in.read = us, store.Truncated(done.Unread), in.missed && len(us) == 0
	a.effects(in, t, done)
	a.publishCommit(in, t, c, done.Now)
	if len(c.Prepend) > 0 {
		in.exec, in.state, in.events, in.poison, in.overdue = nil, &history.State{}, nil, nil, nil
		in.askAt, in.asked, in.begun = 0, 0, nil
		in.knocked, in.startGate, in.away = false, nil, limiter.Verdict{}
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
	a.catchUp(in)
	a.advance(in)
}

// effects sends what the turn asks of the world. All of it may be lost: tasks are found by
// the look, hints by the next renewal, answers by who asks again.
func (a *actor) effects(in *instance, t *turn, done store.Committed) {
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
		if err := a.conn.SendHints(w, hs); err != nil {
			a.log.Debug("a cancel hint could not be sent; the worker finds out by renewing", "worker", w, "error", err)
		}
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
	a.report(in.id, t)
	if in.status().Ended() {
		a.answerWaiters(in)
		failpoint.Here("orchestrator.answered")
	}
	if in.rec != nil && (in.status().Ended() || in.rec.CustomVersion > in.shown) {
		a.showStatus(in)
	}
}

// publish puts the task of an activity into its queue.
func (a *actor) publish(instance string, rec *store.Record, e *history.ActivityScheduled) {
	id := e.ID
	a.sent[sending{instance, id}] = a.clock.now()
	a.publishing++
	a.met.published.Inc()
	a.conn.PublishTask(queue.Task{
		Instance: instance, Born: rec.Origin, Execution: rec.Execution, Activity: id, Effect: e.Effect,
		Name: e.Name, Queue: e.Queue, Attempt: e.Attempt, Payload: e.Payload, ScheduledAt: e.At,
		MaxClaims: uint32(a.cfg.MaxClaims), //nolint:gosec // validated by New
		CallKey:   e.First,
	}, func(err error) {
		failpoint.Here("orchestrator.published")
		a.box.post(func() {
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
		})
	})
}

// discard takes inputs out of the inbox of an instance that does not read them any more.
func (a *actor) discard(in *instance) {
	a.answerWaiters(in)
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
	a.begin(in)
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
