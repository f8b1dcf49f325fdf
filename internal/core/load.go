package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// parseElement reads an element of an inbox. Any process with a worker's credentials can push one that is not sealed, so that one is
// accepted only as the end of an activity. Whether that activity is outstanding is for fits and stale.
func (i *inboxes) parseElement(b []byte) (Unread, error) {
	el, err := history.ParseElement(b)
	if err != nil {
		return Unread{}, err
	}
	u := Unread{ID: el.ID}
	sealed := strings.HasSuffix(u.ID, i.owner.seal)
	if !sealed && !strings.HasPrefix(u.ID, "a") {
		return i.forged(u), nil
	}
	ev, err := el.Event()
	if errors.Is(err, history.ErrNewerVersion) {
		return u, err
	}
	if err == nil { // nonsense is taken out by its id
		u.Ev = ev
	}
	if sealed || u.Ev == nil {
		return u, nil
	}
	if _, ok := u.Completes(); !ok {
		return i.forged(u), nil
	}
	if now := i.owner.clock.now(); el.At > now+clockSlack { // by the clock of Redis, if the ack script has written it
		ev.Meta().At = now
	}
	return u, nil
}

// clockSlack is how far the clock of Redis may be ahead of the owner's last reading of it, ms.
const clockSlack = 5000

func (i *inboxes) forged(u Unread) Unread {
	u.Ev, u.forged = nil, true
	i.owner.met[CountForgedInputs]++
	i.owner.log.Error("forged input dropped", "cause", "an element of an inbox is not sealed and no completion")
	return u
}

// load reads an instance whole.
func (i *inboxes) load(in *instance, req outstanding) {
	i.owner.request(in, loading, req, Effect{Kind: LoadInstance})
}

// loaded goes on with what the instance was loaded for.
func (i *inboxes) loaded(in *instance, req outstanding, l record.Loaded, err error) {
	i.owner.met[CountLoads]++
	if err == nil {
		err = i.take(in, l)
	}
	if err != nil {
		i.unreadable(in, err)
		return
	}
	i.owner.to(in, idle)
	switch req.goal {
	case toContinue:
		i.owner.outbox.flushOutbox(in)
		i.owner.resume(in, sawHead)
	case toFail:
		i.owner.turns.failByName(in, req.failure)
	case toStall:
		i.owner.removals.stall(in, req.stall.Kind, req.stall.Why)
	case toPurge, toRelease, toOperate:
		i.search(in, req)
	}
}

// search reads an inbox of which memory has only the head.
func (i *inboxes) search(in *instance, req outstanding) {
	i.owner.request(in, searching, req, Effect{Kind: SearchInbox})
}

// take makes memory of what the store has.
func (i *inboxes) take(in *instance, l record.Loaded) error {
	us, err := i.parseUnread(l.Unread)
	if err != nil {
		return err
	}
	state := &history.State{}
	for _, e := range l.Events {
		if err := state.Apply(e); err != nil {
			return fmt.Errorf("%w: %w", history.ErrCorrupt, err)
		}
	}
	if l.Record != nil && !l.Record.Status.Ended() && state.Len != l.Record.Events {
		return fmt.Errorf("the history has %d events, and the record has %d: %w", state.Len, l.Record.Events, history.ErrCorrupt)
	}
	state.TakeReleased() // those of the turns before have left, or their gates ask after them
	in.needsInboxRead = false
	in.rec, in.state, in.events, in.unread, in.cut = l.Record, state, l.Events, us, record.Truncated(l.Unread)
	return in.restoreOutbox(l)
}

// restoreOutbox restores the messages that the record does not have as published.
func (in *instance) restoreOutbox(l record.Loaded) error {
	if in.outbox = nil; in.rec == nil {
		return nil
	}
	in.sent, in.notifiedStatusVersion = in.rec.Published, in.rec.CustomVersion
	if in.rec.HasPendingMessages() && (in.rec.Status.Ended() || in.rec.Produced.Execution < in.rec.Execution) {
		if uint64(len(l.Previous)) < in.rec.Produced.Event {
			return fmt.Errorf("execution %d has pending messages up to event %d, and its history has %d events: %w",
				in.rec.Produced.Execution, in.rec.Produced.Event, len(l.Previous), history.ErrCorrupt)
		}
		past := &history.State{}
		for _, e := range l.Previous {
			if err := past.Apply(e); err != nil {
				return fmt.Errorf("execution %d: %w: %w", in.rec.Produced.Execution, history.ErrCorrupt, err)
			}
		}
		in.restoreMessages(past, in.rec.Produced.Execution)
	}
	in.restoreMessages(in.state, in.rec.Execution)
	return nil
}

func (in *instance) restoreMessages(s *history.State, execution uint64) {
	if in.sent.Execution > execution {
		return
	}
	if in.sent.Execution == execution {
		s.TrimAcked(in.sent.Event)
	}
	in.outbox = append(in.outbox, newMessages(in.id, execution, s)...)
}

// inboxRead takes an inbox, or its head.
func (i *inboxes) inboxRead(in *instance, req outstanding, raw [][]byte, err error) {
	var inbox []Unread
	if err == nil {
		inbox, err = i.parseUnread(raw)
	}
	switch {
	case err != nil:
		i.unreadable(in, err)
	case req.phase == reading:
		i.owner.met[CountReads]++
		in.unread, in.cut = inbox, record.Truncated(raw)
		i.owner.resume(in, sawHead)
	case req.goal == toOperate:
		in.unread, in.cut = inbox, false
		i.owner.resume(in, sawNothing)
	case req.goal == toPurge:
		in.unread = inbox
		i.owner.removals.purgeFound(in, req)
	case req.goal == toRelease:
		i.owner.notices.unusedFound(in, req, inbox)
	default:
		i.owner.turns.inboxSearched(in, inbox)
	}
}

// takePending takes what came while a request was outstanding. It came into an empty inbox:
// if the answer shows an inbox that is not empty, it is in there, or was turned before.
func (i *inboxes) takePending(in *instance) {
	late := in.pending.inputs
	in.pending.inputs = nil
	if len(in.unread) > 0 || len(late) == 0 {
		return
	}
	for _, last := range slices.Backward(late) { // of several the inbox was emptied in between, or the doorbell is an old one
		if s := last.seq(); s > in.turned || s == 0 && i.wanted(in, last) {
			in.unread = append(in.unread, last)
			return
		}
	}
}

// unreadable sorts the errors of reading an instance: what is there and cannot be
// understood stalls it; anything else passes.
func (i *inboxes) unreadable(in *instance, err error) {
	if record.Unreadable(err) {
		i.owner.removals.stall(in, stallUnreadable, err.Error())
		return
	}
	i.owner.forgetFailed(in, "load", err)
}

// PendingCount counts the messages that the store does not know to be sent, and takes them out of the state.
func PendingCount(id string, l record.Loaded, state *history.State) uint64 {
	in := &instance{id: id}
	in.rec, in.state = l.Record, state
	if in.restoreOutbox(l) != nil {
		return 0
	}
	return uint64(len(in.outbox))
}

// parseUnread reads what the store answered. An element of a newer build stalls the
// instance; one that is nonsense is kept by its id, to be taken out of the inbox.
func (i *inboxes) parseUnread(raw [][]byte) ([]Unread, error) {
	out := make([]Unread, 0, len(raw))
	for _, b := range raw {
		u, err := i.parseElement(b)
		if err != nil {
			return out, err
		}
		out = append(out, u)
	}
	return out, nil
}
