package orchestrator

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
	if end, more := t.fold.End.(*history.ContinuedAsNew); more {
		r = birth(t.fold.Started)
		r.Version, r.Execution = end.Version, r.Execution+1
	} else if t.begins() {
		r = birth(t.fold.Started)
	} else if in.status() == store.Pending && !t.fold.Waiting(1) {
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
	if t.exec == nil {
		return
	}
	p, sets := t.exec.Status()
	before := t.sets
	if t.begins() {
		before = t.fold.Started.StatusVersion
	}
	if sets == before {
		return
	}
	r.Custom, r.CustomVersion = p, sets-before
	if rec != nil {
		r.CustomVersion += rec.CustomVersion
	}
}

func (t *turn) noteEnd(in *instance, r *store.Record) {
	end := t.fold.End
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
	r.Ended, r.Events, r.End = max(end.Meta().At, t.now), t.fold.Len, t.encoded[len(t.encoded)-1]
	r.Unread = history.CountUnread(t.unread(in))
}

// unread names the events that the instance has been sent and has not read: those that the turn has left in the inbox, as far
// as that has been read, and those that its code has received, if it has run.
func (t *turn) unread(in *instance) (names []string) {
	if t.exec != nil {
		for _, ev := range t.exec.Unread() {
			names = append(names, ev.Name)
		}
	}
	for _, u := range in.unread[min(len(t.pop), len(in.unread)):] {
		if ev, ok := u.ev.(*history.EventReceived); ok {
			names = append(names, ev.Name)
		}
	}
	return names
}

// advanceRecord makes of the record in memory what the commit has made of the store's.
func (in *instance) advanceRecord(c *store.Commit) {
	r, was := c.Record, in.rec
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
	in.rec = r
}
