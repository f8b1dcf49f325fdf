package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
)

// commitAnswered handles the answer to a commit. A commit whose fate is unknown is sent again unchanged, and never decided again: the
// store recognizes it by its new head.
func (c *commits) commitAnswered(in *instance, req outstanding, done record.Committed, err error) {
	t, known := req.turn, err == nil || errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrRefused) || endsTenure(err)
	if !known {
		c.owner.storeFailed("commit of "+in.id, err)
		c.owner.later(t.retry, Message{Kind: commitRetryDue, ID: in.id})
		t.retry = min(2*t.retry, lastRecommit)
		return
	}
	c.owner.to(in, idle)
	switch {
	case err == nil:
		c.committed(in, t, req.commit, done)
		c.acknowledged(done.Number, t.after)
	case errors.Is(err, record.ErrConflict):
		c.owner.met[CountConflicts]++
		c.owner.log.Info("commit conflict, reloading instance", "instance", in.id, "error", err)
		c.owner.leases.doubt()
		c.owner.unload(in)
		c.owner.advance(in)
	case errors.Is(err, record.ErrRefused): // the script checks before it writes, so nothing is written
		c.owner.removals.stall(in, stallUnreadable, err.Error())
	default:
		c.owner.storeFailed("commit", err)
	}
}

// The backoff before a commit of unknown fate is sent again doubles from the first to the last.
const (
	firstRecommit = 50 * time.Millisecond
	lastRecommit  = 2 * time.Second
)

// repeat sends a commit again, as it was.
func (c *commits) repeat(in *instance, req outstanding) {
	c.owner.emit(Effect{Kind: CommitTurn, ID: in.id, Commit: req.commit, Decided: &req.turn.Decided})
}

// acknowledged records the number of a commit. If it is not greater than before, the number acknowledged when the turn was decided, the
// store has lost writes: that ends the tenure.
func (c *commits) acknowledged(number, before int64) bool {
	if number <= before {
		c.owner.fail(fmt.Errorf("commit %d was acknowledged before as %d: %w", number, before, record.ErrRolledBack))
		return false
	}
	c.number = max(c.number, number)
	return true
}

// committed applies a written commit to the in-memory state, and sends its effects and answers.
func (c *commits) committed(in *instance, t *turn, w *record.Commit, done record.Committed) {
	c.owner.clock.set(done.Now)
	c.owner.met[CountCommits]++
	_, stalled := c.owner.removals.stalls[in.id]
	if w.NewHead != "" {
		if len(w.Record.Unread) > 0 {
			c.owner.log.Info("instance ended with unread events", "instance", in.id, "events", record.FormatUnread(w.Record.Unread))
		}
		in.rec = w.Advance(in.rec)
		delete(c.owner.removals.stalls, in.id)
		c.owner.leases.unlist(in.id)
		if err := in.fold(t); err != nil {
			c.owner.removals.stall(in, stallUnreadable, err.Error())
			return
		}
	}
	for _, u := range in.unread[:min(len(t.Pop), len(in.unread))] {
		in.turned = max(in.turned, u.seq())
	}
	in.localInputs = append(in.localInputs, t.refused...)
	in.overdue = append(t.Overdue, in.overdue...)
	if t.Begins() {
		in.startLimit = nil // the recorded start includes it
	}
	us, err := c.owner.inbox.parseUnread(done.Unread)
	in.unread, in.cut, in.needsInboxRead = us, record.Truncated(done.Unread), false
	if !t.imported {
		c.sendEffects(in, t, done)
		c.replyUpdates(in, t)
	}
	c.answerCommit(in)
	c.publishCommit(in, t, w, stalled, done.Now)
	if len(w.Prepend) > 0 {
		c.owner.unloadCode(in)
		in.current = current{state: &fold.State{}}
		if w.Record.NewIncarnation {
			in.sent, in.notifiedStatusVersion, in.inboxOverflowed, in.searched, in.cancelled = record.Watermark{}, 0, false, false, nil // the successor has none of it
		}
	}
	if t.noted {
		c.owner.unload(in) // resident code would lack the recorded events
		c.owner.schedule.wake(in.id)
		return
	}
	if err != nil {
		c.owner.inbox.unreadable(in, err)
		return
	}
	in.wakeupDue = in.wakeupDue && awaits(in) // otherwise the wakeup that the commit has set suffices
	if w.Wakeup != 0 {
		c.owner.schedule.pollBy(c.owner.clock.wall.Add(time.Duration(w.Wakeup-done.Now) * time.Millisecond))
	}
	c.owner.resume(in, sawHead)
}

// fold applies the events of a written turn to the state of the instance.
func (in *instance) fold(t *turn) error {
	if t.Fold == nil {
		return nil
	}
	if in.state == nil {
		in.state = &fold.State{}
	}
	for _, ev := range t.Events {
		if err := in.state.Apply(ev); err != nil {
			return err
		}
	}
	in.state.TakeReleased() // the turn holds the tickets and the messages
	in.state.TrimAcked(in.state.Len)
	return nil
}
