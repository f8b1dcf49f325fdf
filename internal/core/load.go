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
func (a *inboxes) parseElement(b []byte) (Unread, error) {
	el, err := history.ParseElement(b)
	if err != nil {
		return Unread{}, err
	}
	u := Unread{ID: el.ID}
	sealed := strings.HasSuffix(u.ID, a.owner.seal)
	if !sealed && !strings.HasPrefix(u.ID, "a") {
		return a.forged(u), nil
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
		return a.forged(u), nil
	}
	if now := a.owner.clock.now(); el.At > now+clockSlack { // by the clock of Redis, if the ack script has written it
		ev.Meta().At = now
	}
	return u, nil
}

// clockSlack is how far the clock of Redis may be ahead of the owner's last reading of it, ms.
const clockSlack = 5000

func (a *inboxes) forged(u Unread) Unread {
	u.Ev, u.forged = nil, true
	a.owner.met[CountForgedInputs]++
	a.owner.log.Error("forged input dropped", "cause", "an element of an inbox is not sealed and no completion")
	return u
}

// load reads an instance whole.
func (a *inboxes) load(in *instance, o outstanding) {
	a.owner.request(in, loading, o, Effect{Kind: LoadInstance})
}

// loaded goes on with what the instance was loaded for.
func (a *inboxes) loaded(in *instance, o outstanding, l record.Loaded, err error) {
	a.owner.met[CountLoads]++
	if err == nil {
		err = a.take(in, l)
	}
	if err != nil {
		a.unreadable(in, err)
		return
	}
	a.owner.to(in, idle)
	switch o.goal {
	case toContinue:
		a.owner.outbox.flushOutbox(in)
		a.owner.resume(in, sawHead)
	case toFail:
		a.owner.turns.failByName(in, o.failure)
	case toStall:
		a.owner.removals.stall(in, o.stall.Kind, o.stall.Why)
	case toPurge, toRelease, toOperate:
		a.search(in, o)
	}
}

// search reads an inbox of which memory has only the head.
func (a *inboxes) search(in *instance, o outstanding) {
	a.owner.request(in, searching, o, Effect{Kind: SearchInbox})
}

// take makes memory of what the store has.
func (a *inboxes) take(in *instance, l record.Loaded) error {
	us, err := a.parseUnread(l.Unread)
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
func (a *inboxes) inboxRead(in *instance, o outstanding, raw [][]byte, err error) {
	var inbox []Unread
	if err == nil {
		inbox, err = a.parseUnread(raw)
	}
	switch {
	case err != nil:
		a.unreadable(in, err)
	case o.phase == reading:
		a.owner.met[CountReads]++
		in.unread, in.cut = inbox, record.Truncated(raw)
		a.owner.resume(in, sawHead)
	case o.goal == toOperate:
		in.unread, in.cut = inbox, false
		a.owner.resume(in, sawNothing)
	case o.goal == toPurge:
		in.unread = inbox
		a.owner.removals.purgeFound(in, o)
	case o.goal == toRelease:
		a.owner.notices.unusedFound(in, o, inbox)
	default:
		a.owner.turns.inboxSearched(in, inbox)
	}
}

// takePending takes what came while a request was outstanding. It came into an empty inbox:
// if the answer shows an inbox that is not empty, it is in there, or was turned before.
func (a *inboxes) takePending(in *instance) {
	late := in.pending.inputs
	in.pending.inputs = nil
	if len(in.unread) > 0 || len(late) == 0 {
		return
	}
	for _, last := range slices.Backward(late) { // of several the inbox was emptied in between, or the doorbell is an old one
		if s := last.seq(); s > in.turned || s == 0 && a.wanted(in, last) {
			in.unread = append(in.unread, last)
			return
		}
	}
}

// unreadable sorts the errors of reading an instance: what is there and cannot be
// understood stalls it; anything else passes.
func (a *inboxes) unreadable(in *instance, err error) {
	if record.Unreadable(err) {
		a.owner.removals.stall(in, stallUnreadable, err.Error())
		return
	}
	a.owner.forgetFailed(in, "load", err)
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
func (a *inboxes) parseUnread(raw [][]byte) ([]Unread, error) {
	out := make([]Unread, 0, len(raw))
	for _, b := range raw {
		u, err := a.parseElement(b)
		if err != nil {
			return out, err
		}
		out = append(out, u)
	}
	return out, nil
}
