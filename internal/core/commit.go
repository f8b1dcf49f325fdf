package core

import (
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/record"
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

// commitEntered commits a turn whose gates have answered, unless their notes have made it too large.
func (a *admission) commitEntered(in *instance, t *turn) {
	if err := t.encodeAgain(); err != nil {
		a.owner.removals.stall(in, stallUnreadable, err.Error())
		return
	}
	if t.Size > record.CommitBytes {
		t.tickets = t.hasEntered()
		a.leaveGates(in, t, allTickets)
		a.owner.turns.tooLarge(in, t)
		return
	}
	a.owner.commits.commit(in, t)
}

// encodeAgain encodes the schedules whose gates have been noted since they were recorded.
func (t *turn) encodeAgain() error {
	for _, e := range t.stamped {
		b, err := history.Encode(e)
		if err != nil {
			return err
		}
		i := e.ID - t.Events[0].Meta().ID // ids are dense
		t.Size += len(b) - len(t.Encoded[i])
		t.Encoded[i] = b
	}
	return nil
}

// hasEntered gives the tickets that the turn has brought to their gates. (A slot that is kept may be from before: it leaves with the
// instance, or its gate asks after it.)
func (t *turn) hasEntered() []history.Ticket {
	return slices.DeleteFunc(t.Fold.Tickets(), func(k history.Ticket) bool {
		return k.Event < t.Events[0].Meta().ID || k.Limit.Retain && !k.Waiting
	})
}

// commit writes a turn and, once it is written, sends its effects.
func (c *commits) commit(in *instance, t *turn) {
	delete(c.owner.operators.held, in.id)
	t.execution, t.after, t.retry = in.execution(), c.number, firstRecommit
	if t.imported {
		t.execution = t.Fold.Execution()
	}
	if t.Fold != nil {
		t.messages = newMessages(in.id, in.execution(), t.Fold)
		t.takeLeft()
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
			w.Retain, w.Release = t.keeps(), t.forgone
		}
		if w.Record.Status.Ended() {
			w.Wakeup = sooner(w.Wakeup, c.owner.schedule.notBefore(c.owner.removals.keptUntil(w.Record)))
		}
		if t.Begins() && w.Execution > keptExecutions {
			w.Prune = w.Execution - keptExecutions
		}
	} else if in.rec != nil && in.rec.Published.Before(in.sent) {
		w.Wakeup = sooner(w.Wakeup, c.owner.clock.now()+c.owner.cfg.ReconcileInterval.Milliseconds()) // the record is not written, and a reconciliation has to say it
	}
	w.Answers = t.answers()
	made := &t.Decided
	if t.imported { // it is neither measured nor traced again
		made = &Decided{Made: Made{Fold: t.Fold}}
	}
	c.owner.request(in, committing, outstanding{turn: t, commit: w}, Effect{Kind: CommitTurn, Commit: w, Decided: made})
}

// keptExecutions is how many executions of an instance have a history: the current one and the one before it.
const keptExecutions = 2

// discard takes inputs out of the inbox of an instance that does not read them any more.
func (c *commits) discard(in *instance) {
	c.answerWaiters(in, false)
	n, successor := c.owner.turns.answerStarts(in)
	switch {
	case n > 0:
		c.takeOut(in, n)
	case successor != nil && len(in.outbox) > 0:
		c.owner.outbox.flushOutbox(in) // and go on when the stream has the end of the orphan
	case successor != nil:
		c.owner.turns.promoteSuccessor(in, successor)
	case c.owner.removals.retired(in):
		c.owner.removals.purge(in, nil)
	default:
		c.owner.leases.settle(in)
	}
}

// takeOut pops the first n unread inputs without turning them.
func (c *commits) takeOut(in *instance, n int) {
	t := &turn{in: in}
	if in.rec == nil {
		t.Due = 1 // nothing is so old; but inputs that the store has forgotten may be the start that they wait for
	}
	for _, u := range in.unread[:n] {
		t.Pop = append(t.Pop, u.ID)
		t.leave(u)
	}
	c.owner.met[CountDropped] += float64(n)
	c.commit(in, t)
}
