package core

import (
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// record says what the turn changes of the record.
func record(in *instance, t *turn) *store.Record {
	if t.successor != nil { // of an orphan's id
		r := birth(t.successor)
		r.NewIncarnation = true
		return r
	}
	r := &store.Record{}
	if end, more := t.Fold.End.(*history.ContinuedAsNew); more {
		r = birth(t.Fold.Started)
		r.Version, r.Execution = end.Version, r.Execution+1
	} else if t.Begins() {
		r = birth(t.Fold.Started)
	} else if in.status() == store.Pending && !t.Fold.Waiting(1) {
		r.Status = store.Running
	}
	if in.rec != nil && r.Name != "" {
		r.Created = in.rec.Created // of the first execution
	}
	t.noteStatus(in.rec, r)
	if n := len(t.messages); n > 0 {
		r.Produced = t.messages[n-1].mark
	}
	r.Published = in.sent // also what the store was told before: it may have forgotten it, and nothing else would say so
	t.noteEnd(in, r)
	return r
}

// birth is the record of an execution that begins so.
func birth(s *history.Started) *store.Record {
	r := &store.Record{
		Name: s.Name, Version: s.Version, Origin: s.Origin, Execution: s.Execution, Created: s.At, Status: store.Running, Parent: s.Parent,
	}
	if s.Limit != nil && s.Limit.Waiting {
		r.Status = store.Pending
	}
	return r
}

// noteStatus writes the custom status if the turn has set it. How often it was set before is in no history: code that has been
// changed since counts otherwise, so the record goes on from what it has.
func (t *turn) noteStatus(rec, r *store.Record) {
	if t.Status == nil {
		return
	}
	r.Custom, r.CustomVersion = t.Status.Payload, t.Status.Sets
	if rec != nil {
		r.CustomVersion += rec.CustomVersion
	}
}

func (t *turn) noteEnd(in *instance, r *store.Record) {
	end := t.Fold.End
	if _, more := end.(*history.ContinuedAsNew); end == nil || more {
		return
	}
	switch end.(type) {
	case *history.Completed:
		r.Status = store.Completed
	case *history.Cancelled:
		r.Status = store.Cancelled
	default:
		r.Status = store.Failed
	}
	r.Ended, r.Events, r.End = max(end.Meta().At, t.now), t.Fold.Len, t.Encoded[len(t.Encoded)-1]
	r.Unread = history.CountUnread(t.unreadBy(in))
}

// unread names the events that the instance has been sent and has not read: those that the turn has left in the inbox, as far
// as that has been read, and those that its code has received, if it has run.
func (t *turn) unreadBy(in *instance) []string {
	names := t.Unread
	for _, u := range in.unread[min(len(t.Pop), len(in.unread)):] {
		if ev, ok := u.Ev.(*history.EventReceived); ok {
			names = append(names, ev.Name)
		}
	}
	return names
}

// AdvanceRecord completes the record of a commit to what the store then has; was is the one before it, nil for none.
func AdvanceRecord(was *store.Record, c *store.Commit) *store.Record {
	r := c.Record
	if was == nil || r.NewIncarnation {
		was = &store.Record{}
	}
	if r.Name == "" {
		r.Name, r.Version, r.Origin, r.Execution, r.Created, r.Parent = was.Name, was.Version, was.Origin, was.Execution, was.Created, was.Parent
	}
	if r.Status == "" {
		r.Status, r.Ended, r.Events, r.End, r.Unread = was.Status, was.Ended, was.Events, was.End, was.Unread
	}
	if r.CustomVersion == 0 {
		r.Custom, r.CustomVersion = was.Custom, was.CustomVersion
	}
	if r.Produced == (store.Watermark{}) {
		r.Produced = was.Produced
	}
	if r.Published == (store.Watermark{}) {
		r.Published = was.Published
	}
	r.Head = c.NewHead
	return r
}
