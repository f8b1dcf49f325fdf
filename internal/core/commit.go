package core

import (
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
)

// commits writes turns, and sends their effects and answers.
type commits struct {
	owner    *Owner
	number   int64             // highest commit number that the store has acknowledged
	heads    string            // prefix of the heads; a number completes each
	watched  time.Time         // until when changes are published: without a watcher a commit costs no message
	sent     map[sending]int64 // last publication of the task of an outstanding activity in this tenure, Unix ms
	resends  resends
	waiters  waiters // clients that wait for the end of an instance
	watchers waiters // clients that wait for a custom status
	updaters waiters // clients that wait for the answer to an update, by instance and update: see updates.go
}

// commitEntered commits a turn whose limits have answered, unless the answers have made it too large.
func (a *admission) commitEntered(in *instance, t *turn) {
	if err := t.encodeAgain(); err != nil {
		a.owner.removals.stall(in, stallUnreadable, err.Error())
		return
	}
	if t.Size > record.CommitBytes {
		t.tickets = t.hasEntered()
		a.leaveLimits(in, t, allTickets)
		a.owner.turns.tooLarge(in, t)
		return
	}
	a.owner.commits.commit(in, t)
}

// encodeAgain encodes the schedules whose limit has changed since they were encoded.
func (t *turn) encodeAgain() error {
	for _, e := range t.stamped {
		b, err := eventcodec.Encode(e)
		if err != nil {
			return err
		}
		i := e.ID - t.Events[0].Meta().ID // ids are dense
		t.Size += len(b) - len(t.Encoded[i])
		t.Encoded[i] = b
	}
	return nil
}

// hasEntered returns the tickets with which the turn has entered limits. (A retained slot may be from an earlier turn: it leaves with the
// instance, or the sweep of its limit finds it.)
func (t *turn) hasEntered() []fold.Ticket {
	return slices.DeleteFunc(t.Fold.Tickets(), func(k fold.Ticket) bool {
		return k.Event < t.Events[0].Meta().ID || k.Limit.Retain && !k.Waiting
	})
}

// commit sends the commit of a turn. Its effects are sent once it is written.
func (c *commits) commit(in *instance, t *turn) {
	delete(c.owner.operators.held, in.id)
	t.execution, t.after, t.retry = in.execution(), c.number, firstRecommit
	if t.imported {
		t.execution = t.Fold.Execution()
	}
	if t.Fold != nil {
		t.messages = newMessages(in.id, in.execution(), t.Fold)
		t.takeReleased()
	}
	w := &record.Commit{
		Instance: in.id, Head: in.head(), Pop: t.Pop, Events: t.Encoded, Prepend: t.Front,
		From: in.status(), Wakeup: c.wakeupAfter(in, t), MaxUnread: record.UnreadBatch, Execution: t.execution, Due: t.Due,
	}
	if t.Due != 0 {
		w.Applied = c.owner.schedule.horizon.applied.Time
	}
	if len(t.Events) > 0 || len(t.Front) > 0 || t.noted {
		w.NewHead = c.heads + strconv.FormatUint(c.owner.nextNumber(), 36)
		w.Record = changes(in, t)
		w.Reindex(in.rec)
		if !t.imported {
			w.Create, w.Delete = t.leases()
			w.Retain, w.Release = t.keeps(), t.released
		}
		if w.Record.Status.Ended() {
			w.Wakeup = sooner(w.Wakeup, c.owner.schedule.notBefore(c.owner.removals.keptUntil(w.Record)))
		}
		if t.Begins() && w.Execution > keptExecutions {
			w.Prune = w.Execution - keptExecutions
		}
	} else if in.rec != nil && in.rec.Published.Before(in.sent) {
		w.Wakeup = sooner(w.Wakeup, c.owner.nextInterval()) // this commit does not write the watermark: a reconciliation must
	}
	w.Answers = t.answers()
	decided := &t.Decided
	if t.imported { // its events are neither measured nor traced again
		decided = &Decided{Additions: Additions{Fold: t.Fold}}
	}
	c.owner.request(in, committing, outstanding{turn: t, commit: w}, Effect{Kind: CommitTurn, Commit: w, Decided: decided})
}

// nextInterval returns the time one reconcile interval from now, Unix ms.
func (o *Owner) nextInterval() int64 { return o.clock.now() + o.cfg.ReconcileInterval.Milliseconds() }

// keptExecutions is the number of executions of an instance that keep a history: the current one and the previous one.
const keptExecutions = 2

// discard makes the next step of an instance that has ended: it answers and removes inputs, promotes a successor, or purges the instance.
func (c *commits) discard(in *instance) {
	c.answerWaiters(in, false)
	n, successor := c.owner.turns.answerStarts(in)
	switch {
	case n > 0:
		c.takeOut(in, n)
	case successor != nil && len(in.outbox) > 0:
		c.owner.outbox.flushOutbox(in) // the successor is promoted when the stream has acknowledged the end of this instance
	case successor != nil:
		c.owner.turns.promoteSuccessor(in, successor)
	case c.owner.removals.retired(in):
		c.owner.removals.purge(in, nil)
	default:
		c.owner.leases.settle(in)
	}
}

// takeOut removes the first n unread inputs without a turn.
func (c *commits) takeOut(in *instance, n int) {
	t := &turn{in: in}
	if in.rec == nil {
		t.Due = 1 // older than any input, so that only Applied is checked: if the store has lost inputs, a start may be among them
	}
	for _, u := range in.unread[:n] {
		t.Pop = append(t.Pop, u.ID)
		t.leave(u)
	}
	c.owner.met[CountDropped] += float64(n)
	c.commit(in, t)
}
