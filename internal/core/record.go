package core

import (
	"cmp"
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

// leases returns the leases that the turn creates and deletes. A waiter at a gate has none before it is admitted. An activity that
// is poisoned has ended without an ack, so its lease is still there.
func (t *turn) leases() (create, remove []record.Lease) {
	for s := range t.LetIn {
		create = append(create, record.Lease{Activity: s.ID, Effect: s.Effect})
	}
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ActivityCancelRequested:
			remove = append(remove, record.Lease{Activity: e.Scheduled})
		case *history.Paused:
			remove = append(remove, t.stopped(e)...)
		case *history.ActivityFailed:
			if e.Failure.Code == history.CodePoison {
				remove = append(remove, record.Lease{Activity: e.Scheduled})
			}
		}
	}
	return create, remove
}

// Begins reports whether the turn is the first of its execution.
func (t *Decided) Begins() bool {
	if len(t.Events) == 0 {
		return false
	}
	_, ok := t.Events[0].(*history.Started)
	return ok
}

// LetIn gives the activities that the turn lets begin: those that it schedules and that need not wait, and those that have waited.
func (t *Decided) LetIn(yield func(*history.ActivityScheduled) bool) {
	for _, ev := range t.Events {
		s, scheduled := ev.(*history.ActivityScheduled)
		if g, ok := ev.(*history.Granted); ok {
			s = t.Fold.Activity(g.Scheduled)
		}
		if s == nil || scheduled && s.Limit != nil && s.Limit.Waiting {
			continue
		}
		if !yield(s) {
			return
		}
	}
}

// stopped are the leases of the activities that a pause stops.
func (t *turn) stopped(p *history.Paused) []record.Lease {
	var out []record.Lease
	if p.Stop {
		for _, id := range t.Fold.Outstanding() {
			out = append(out, record.Lease{Activity: id})
		}
	}
	return out
}

// keeps gives the tickets of the turn whose slots the instance has, and keeps from one attempt to the next.
func (t *turn) keeps() (kept []string) {
	for s := range t.LetIn {
		if s.Limit == nil || !s.Limit.Retain {
			continue
		}
		if k, ok := t.Fold.Find(s.Limit.Ticket); ok && !k.Waiting {
			kept = append(kept, k.ID)
		}
	}
	return kept
}

// answers returns what the commit writes into the ledger.
func (t *turn) answers() []record.Answer {
	if len(t.Answers) == 0 {
		return nil
	}
	out := make([]record.Answer, 0, len(t.Answers))
	for _, a := range t.Answers {
		switch {
		case !a.Left:
			b, err := a.Answer.Encode()
			if err != nil { // it was encoded as an event before
				continue
			}
			out = append(out, record.Answer{Update: a.Update.Key(), Answer: b})
		case t.in.rec == nil: // nothing else would remove it
			out = append(out, record.Answer{Update: a.Update.Key()})
		}
	}
	return out
}
