package core

import (
	"cmp"
	"strconv"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// changes returns the fields of the record that the turn changes.
func changes(in *instance, t *turn) *record.Record {
	if t.successor != nil {
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
		r.Execution = t.execution // an imported history may have several executions: the last one
	case t.noted && in.rec == nil: // a delayed start
		r = newRecord(in.unread[0].Ev.(*history.Started)) //nolint:forcetypeassert // beforeStart checks it
		r.Status = t.note
	case t.noted:
		r.Status = t.note
	case in.paused() && t.Fold.Waiting(1):
		r.Status = record.Pending
	case in.paused(), in.status() == record.Pending && !t.Fold.Waiting(1):
		r.Status = record.Running
	}
	if in.rec != nil && r.Name != "" {
		r.Created = in.rec.Created // the time of the first execution
	}
	t.noteStatus(in.rec, r)
	r.Attributes = cmp.Or(t.Attributes, r.Attributes)
	if in.rec != nil && r.Attributes == in.rec.Attributes {
		r.Attributes = "" // unchanged
	}
	t.noteUnanswered(in.rec, r)
	r.Control = in.control
	if n := len(t.messages); n > 0 {
		r.Produced = t.messages[n-1].mark
	}
	if t.imported {
		r.Produced = in.sent
	}
	r.Published = in.sent // even if it is recorded already: the store may have lost that, and nothing else would restore it
	t.noteEnd(in, r)
	return r
}

// newRecord returns the record of an execution that begins with s.
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

// noteStatus writes the custom status if the turn has set it. Its version counts on from the recorded version: histories do not
// record how often the status was set, and changed code would count differently on replay.
func (t *turn) noteStatus(rec, r *record.Record) {
	if t.Status == nil {
		return
	}
	r.Custom, r.CustomVersion = t.Status.Payload, t.Status.Sets
	if rec != nil {
		r.CustomVersion += rec.CustomVersion
	}
}

// noteUnanswered writes whether the code has received updates that it has not answered, if that has changed.
func (t *turn) noteUnanswered(was, r *record.Record) {
	_, more := t.Fold.End.(*history.ContinuedAsNew) // open updates move to the next execution
	open, had := !more && t.Fold.UpdateLen() > 0, was != nil && was.Unanswered == "true"
	if open != had && (t.Fold.End == nil || more) {
		r.Unanswered = strconv.FormatBool(open)
	}
}

// noteEnd writes the end of the instance, if the turn has ended it.
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
	names := t.Unread // events that the code has received, if it has run
	for _, u := range in.unread[min(len(t.Pop), len(in.unread)):] {
		if ev, ok := u.Ev.(*history.EventReceived); ok { // left in the inbox, as far as that is in memory
			names = append(names, ev.Name)
		}
	}
	r.Unread = record.CountUnread(names)
}

// leases returns the leases that the turn creates and deletes. A waiter at a limit has no lease before it is admitted. A poisoned
// activity has ended without an acknowledgement, so its lease still exists.
func (t *turn) leases() (create, remove []record.Lease) {
	for s := range t.Runnable {
		create = append(create, record.Lease{Activity: s.ID, Effect: s.Effect})
	}
	for _, e := range t.Events {
		switch e := e.(type) {
		case *history.ActivityCancelRequested:
			remove = append(remove, record.Lease{Activity: e.Scheduled})
		case *history.Paused:
			if e.Stop {
				for _, id := range t.Fold.Outstanding() {
					remove = append(remove, record.Lease{Activity: id})
				}
			}
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
	return len(t.Events) > 0 && t.Events[0].Kind() == history.KindStarted
}

// Runnable iterates over the activities that may run after the turn: those that it schedules and that do not wait at a limit, and those whose
// grants it has turned.
func (t *Decided) Runnable(yield func(*history.ActivityScheduled) bool) {
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

// keeps returns the tickets of the turn whose slots the instance holds, and retains from one attempt to the next.
func (t *turn) keeps() (kept []string) {
	for s := range t.Runnable {
		if s.Limit == nil || !s.Limit.Retain {
			continue
		}
		if k, ok := t.Fold.Find(s.Limit.Ticket); ok && !k.Waiting {
			kept = append(kept, k.ID)
		}
	}
	return kept
}

// answers returns the answers that the commit writes into the ledger.
func (t *turn) answers() (out []record.Answer) {
	for _, a := range t.Answers {
		if !a.Left {
			if b, err := a.Answer.Encode(); err == nil { // it was encoded as an event before
				out = append(out, record.Answer{Update: effectid.Update(a.Update), Answer: b})
			}
		} else if t.in.rec == nil { // nothing else would remove the update
			out = append(out, record.Answer{Update: effectid.Update(a.Update)})
		}
	}
	return out
}
