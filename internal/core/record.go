package core

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// changes returns what the turn changes of the record.
func changes(in *instance, t *turn) *record.Record {
	if t.successor != nil { // of an orphan's id
		r := newRecord(t.successor)
		if r.NewIncarnation = true; t.successor.StartAt != 0 {
			r.Status = record.Pending
		}
		return r
	}
	r := &record.Record{}
	end, more := t.Fold.End.(*history.ContinuedAsNew)
	switch {
	case more:
		r = newRecord(t.Fold.Started)
		r.Version, r.Execution = end.Version, in.execution()+1
	case t.Begins():
		r = newRecord(t.Fold.Started)
		r.Execution = t.execution // of an imported history, the last
	case t.noted && in.rec == nil: // a start that is not due
		r = newRecord(in.unread[0].Ev.(*history.Started)) //nolint:forcetypeassert // notBegun looks
		r.Status = t.note
	case t.noted:
		r.Status = t.note
	case in.paused() && t.Fold.Waiting(1):
		r.Status = record.Pending
	case in.paused(), in.status() == record.Pending && !t.Fold.Waiting(1):
		r.Status = record.Running
	}
	if in.rec != nil && r.Name != "" {
		r.Created = in.rec.Created // of the first execution
	}
	t.noteStatus(in.rec, r)
	r.Attributes = cmp.Or(t.Attributes, r.Attributes)
	if in.rec != nil && r.Attributes == in.rec.Attributes {
		r.Attributes = "" // stays as it is
	}
	t.noteUnanswered(in.rec, r)
	r.Control = in.control
	if n := len(t.messages); n > 0 {
		r.Produced = t.messages[n-1].mark
	}
	if t.imported {
		r.Produced = in.sent
	}
	r.Published = in.sent // also what the store has recorded before: it may have forgotten it, and nothing else would restore it
	t.noteEnd(in, r)
	return r
}

// newRecord is the record of an execution that begins so.
func newRecord(s *history.Started) *record.Record {
	r := &record.Record{
		Name: s.Name, Version: s.Version, Origin: s.Origin, Execution: s.Execution, Created: s.At, Status: record.Running, Parent: s.Parent,
		Attributes: s.Attributes,
	}
	if s.Limit != nil && s.Limit.Waiting {
		r.Status = record.Pending
	}
	return r
}

// noteStatus writes the custom status if the turn has set it. How often it was set before is in no history: code that has been
// changed since counts otherwise, so the record goes on from what it has.
func (t *turn) noteStatus(rec, r *record.Record) {
	if t.Status == nil {
		return
	}
	r.Custom, r.CustomVersion = t.Status.Payload, t.Status.Sets
	if rec != nil {
		r.CustomVersion += rec.CustomVersion
	}
}

// noteUnanswered writes whether the code has received updates and not answered them, if that has changed.
func (t *turn) noteUnanswered(was, r *record.Record) {
	_, more := t.Fold.End.(*history.ContinuedAsNew) // which puts them in front of the next execution
	open, had := !more && t.Fold.UpdateLen() > 0, was != nil && was.Unanswered == "true"
	if open != had && (t.Fold.End == nil || more) {
		r.Unanswered = strconv.FormatBool(open)
	}
}

func (t *turn) noteEnd(in *instance, r *record.Record) {
	end := t.Fold.End
	if _, more := end.(*history.ContinuedAsNew); end == nil || more {
		return
	}
	switch end.(type) {
	case *history.Completed:
		r.Status = record.Completed
	case *history.Cancelled:
		r.Status = record.Cancelled
	default:
		r.Status = record.Failed
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
func AdvanceRecord(was *record.Record, c *record.Commit) *record.Record {
	r := c.Record
	if was == nil || r.NewIncarnation {
		was = &record.Record{Replaced: r.NewIncarnation}
	}
	r.Replaced = was.Replaced
	if r.Name == "" {
		r.Name, r.Version, r.Origin, r.Execution, r.Created, r.Parent = was.Name, was.Version, was.Origin, was.Execution, was.Created, was.Parent
	}
	if r.Status == "" {
		r.Status, r.Ended, r.Events, r.End, r.Unread = was.Status, was.Ended, was.Events, was.End, was.Unread
	}
	if r.CustomVersion == 0 {
		r.Custom, r.CustomVersion = was.Custom, was.CustomVersion
	}
	r.Attributes, r.Unanswered = cmp.Or(r.Attributes, was.Attributes), cmp.Or(r.Unanswered, was.Unanswered)
	r.Control, r.Produced, r.Published = cmp.Or(r.Control, was.Control), cmp.Or(r.Produced, was.Produced), cmp.Or(r.Published, was.Published)
	r.Retained = AdvanceRetained(was.Retained, c.Release, c.Retain)
	r.Head = c.NewHead
	return r
}

// AdvanceRetained are the retained tickets of a record behind a script that first releases some and then retains others, in order.
func AdvanceRetained(was, release, retain []string) []string {
	kept := slices.DeleteFunc(slices.Clone(was), func(ticket string) bool { return slices.Contains(release, ticket) })
	kept = append(kept, retain...)
	slices.Sort(kept)
	return slices.Compact(kept)
}
