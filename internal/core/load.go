package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
)

// parseElement decodes an element of an inbox. Any process with a worker's credentials can push an element that is not sealed, so such
// an element is accepted only as the completion of an activity. Unread.Fits decides whether that activity is outstanding.
func (i *inboxes) parseElement(b []byte) (Unread, error) {
	el, err := eventcodec.ParseElement(b)
	if err != nil {
		return Unread{}, err
	}
	u := Unread{ID: el.ID}
	sealed := strings.HasSuffix(u.ID, i.owner.seal)
	if !sealed && !strings.HasPrefix(u.ID, "a") {
		return i.forged(u), nil
	}
	ev, err := el.Event()
	if errors.Is(err, eventcodec.ErrNewerVersion) {
		return u, err
	}
	if err == nil { // otherwise the element is removed by its id
		u.Ev = ev
	}
	if sealed || u.Ev == nil {
		return u, nil
	}
	if _, ok := u.Completes(); !ok {
		return i.forged(u), nil
	}
	if now := i.owner.clock.now(); el.At > now+clockSlack { // the ack script writes Redis TIME; a forged element may have any time
		ev.Meta().At = now
	}
	return u, nil
}

// clockSlack is the maximum by which Redis TIME may be ahead of the owner's estimate, ms.
const clockSlack = 5000

// forged counts and logs an element that is not sealed and no completion.
func (i *inboxes) forged(u Unread) Unread {
	u.Ev, u.forged = nil, true
	i.owner.met[CountForgedInputs]++
	i.owner.log.Error("forged input dropped", "cause", "an element of an inbox is not sealed and no completion")
	return u
}

// load reads record, history and inbox of an instance.
func (i *inboxes) load(in *instance, req outstanding) {
	i.owner.request(in, loading, req, Effect{Kind: LoadInstance})
}

// loaded takes the loaded state into memory and continues with the goal of the load.
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
		i.owner.removals.stall(in, req.stall.Kind, req.stall.Reason)
	case toPurge, toRelease, toOperate:
		i.search(in, req)
	}
}

// search reads the whole inbox: memory may hold only its head.
func (i *inboxes) search(in *instance, req outstanding) {
	i.owner.request(in, searching, req, Effect{Kind: SearchInbox})
}

// take replaces the in-memory state by the loaded state.
func (i *inboxes) take(in *instance, l record.Loaded) error {
	us, err := i.parseUnread(l.Unread)
	if err != nil {
		return err
	}
	state, err := foldEvents(l.Events)
	if err != nil {
		return fmt.Errorf("%w: %w", eventcodec.ErrCorrupt, err)
	}
	if l.Record != nil && !l.Record.Status.Ended() && state.Len != l.Record.Events {
		return fmt.Errorf("the history has %d events, and the record has %d: %w", state.Len, l.Record.Events, eventcodec.ErrCorrupt)
	}
	state.TakeReleased() // tickets released by earlier turns have left, or the sweeps of their limits find them
	in.needsInboxRead = false
	in.rec, in.state, in.events, in.unread, in.cut = l.Record, state, l.Events, us, record.Truncated(l.Unread)
	return in.restoreOutbox(l)
}

// restoreOutbox restores the messages that the record does not show as published.
func (in *instance) restoreOutbox(l record.Loaded) error {
	if in.outbox = nil; in.rec == nil {
		return nil
	}
	in.sent, in.notifiedStatusVersion = in.rec.Published, in.rec.CustomVersion
	if in.rec.HasPendingMessages() && (in.rec.Status.Ended() || in.rec.Produced.Execution < in.rec.Execution) {
		if uint64(len(l.Previous)) < in.rec.Produced.Event {
			return fmt.Errorf("execution %d has pending messages up to event %d, and its history has %d events: %w",
				in.rec.Produced.Execution, in.rec.Produced.Event, len(l.Previous), eventcodec.ErrCorrupt)
		}
		past, err := foldEvents(l.Previous)
		if err != nil {
			return fmt.Errorf("execution %d: %w: %w", in.rec.Produced.Execution, eventcodec.ErrCorrupt, err)
		}
		in.restoreMessages(past, in.rec.Produced.Execution)
	}
	in.restoreMessages(in.state, in.rec.Execution)
	return nil
}

func (in *instance) restoreMessages(s *fold.State, execution uint64) {
	if in.sent.Execution > execution {
		return
	}
	if in.sent.Execution == execution {
		s.TrimAcked(in.sent.Event)
	}
	in.outbox = append(in.outbox, newMessages(in.id, execution, s)...)
}

// inboxRead handles the answer to reading the head of an inbox, or to searching all of it.
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

// takePending takes in the inputs that arrived while a request was outstanding. Each arrived in an empty inbox:
// if the answer shows an inbox that is not empty, it includes the input, or a turn has consumed it before.
func (i *inboxes) takePending(in *instance) {
	late := in.pending.inputs
	in.pending.inputs = nil
	if len(in.unread) > 0 || len(late) == 0 {
		return
	}
	for _, last := range slices.Backward(late) { // of several, only the last can be unread: the inbox was emptied in between
		if s := last.seq(); s > in.turned || s == 0 && in.completesOutstanding(last) {
			in.unread = append(in.unread, last)
			return
		}
	}
}

// unreadable handles an error of reading an instance: data that cannot be decoded stalls the instance; any other error
// is temporary.
func (i *inboxes) unreadable(in *instance, err error) {
	if record.Unreadable(err) {
		i.owner.removals.stall(in, stallUnreadable, err.Error())
		return
	}
	i.owner.dropFailed(in, "load", err)
}

// PendingCount returns the number of messages that are not recorded as published, and removes them from the state.
func PendingCount(id string, l record.Loaded, state *fold.State) uint64 {
	in := &instance{id: id}
	in.rec, in.state = l.Record, state
	if in.restoreOutbox(l) != nil {
		return 0
	}
	return uint64(len(in.outbox))
}

// parseUnread decodes the elements of an inbox. The error is that of an element of a newer build, which stalls the
// instance; an element that does not decode is kept by its id, to be removed from the inbox.
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
