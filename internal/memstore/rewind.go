package memstore

import (
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Rewind is the request to begin the next execution with the first events of the current one.
type Rewind struct {
	Instance  string
	Execution uint64 // the current execution, which ends
	Keep      int    // number of events to keep
	Head      string
	NewHead   string
	Status    string
	Read      int // number of inputs that the owner has seen
	Results   []record.Placed
	Delete    []uint64
	Front     []Element

	Data *record.Record // the other fields of the record
}

// Rewind begins the next execution with the first events of the current one, or changes nothing.
func (s *Store) Rewind(now int64, token string, r Rewind) Committed {
	if s.fenced(now, token) {
		return Committed{Answer: Fenced}
	}
	in, next := s.Get(r.Instance), r.Execution+1
	switch {
	case in.Head == r.NewHead: // an earlier sending succeeded
		if s.Rules.Wrong == RewindTwice {
			in.Inbox = append(slices.Clone(r.Front), in.Inbox...)
		}
		return Committed{Answer: OK, Number: s.Owner.Commits}
	case in.Head != r.Head && s.Rules.Wrong != RewindBlind, len(in.Histories[r.Execution]) != in.Events && s.Rules.Wrong != RewindBlind,
		slices.ContainsFunc(in.Inbox[min(r.Read, len(in.Inbox)):], Element.completion) && s.Rules.Wrong != RewindUnread,
		slices.ContainsFunc(r.Results, in.lost) && s.Rules.Wrong != RewindForgetful:
		return Committed{Answer: Conflict}
	}
	in = s.make(r.Instance)
	kept := in.Histories[r.Execution]
	kept = slices.Clone(kept[:min(r.Keep, len(kept))])
	delete(in.Histories, next)
	if len(kept) > 0 {
		in.Histories[next] = kept
	}
	in.dropReports(next)
	if s.Rules.Wrong != RewindNoPrune {
		delete(in.Histories, r.Execution-1)
		in.dropReports(r.Execution - 1)
	}
	var holders []Holder
	if s.Rules.Wrong != RewindKeepsLeases {
		holders = s.leases(now, in, Turn{Execution: r.Execution, Delete: r.Delete})
	}
	if s.Rules.Wrong == RewindBehind {
		in.Inbox = append(in.Inbox, r.Front...)
	} else {
		in.Inbox = append(slices.Clone(r.Front), in.Inbox...)
	}
	at := Place{Execution: next, Event: uint64(r.Keep)} //nolint:gosec // a length
	in.Head, in.Status, in.Execution, in.Events, in.Out, in.Sent = r.NewHead, r.Status, next, r.Keep, at, at
	if in.Data = r.Data; s.Rules.Wrong != RewindKeepsEnd {
		in.End = ""
	}
	s.setWakeup(r.Instance, now)
	s.Owner.Commits++
	return Committed{Answer: OK, Holders: holders, Number: s.Owner.Commits}
}

// lost reports an element that is not at its index.
func (in *Instance) lost(e record.Placed) bool {
	return e.Place >= len(in.Inbox) || in.Inbox[e.Place].ID != e.ID
}

// completion reports an input pushed by a worker.
func (e Element) completion() bool { return e.ID[0] == 'a' }

// WriteRewind writes a rewind.
func (s Backend) WriteRewind(now int64, token string, w *record.Rewind) (record.Committed, error) {
	r := Rewind{
		Instance: w.Instance, Execution: w.Execution, Keep: int(w.Keep), Head: w.Head, NewHead: w.NewHead, Status: string(w.To), Read: w.Read, Results: w.Results, //nolint:gosec // a length
	}
	for _, l := range w.Delete {
		r.Delete = append(r.Delete, l.Activity)
	}
	for _, b := range w.Prepend {
		el, err := eventcodec.ParseElement(b)
		if err != nil {
			return record.Committed{}, err
		}
		r.Front = append(r.Front, s.Store.returned(el))
	}
	if was := s.Record(w.Instance); was != nil {
		was.Ended, was.Unread, was.Control, was.Unanswered = 0, nil, w.Control, w.Unanswered
		was.Retained = record.AdvanceRetained(was.Retained, w.Release, w.Retain)
		r.Data = was
	}
	got := s.Store.Rewind(now, token, r)
	return record.Committed{Now: now, Number: got.Number, Workers: workers(got.Holders, r.Delete)}, got.Answer.err()
}

// returned returns an element for the front of the inbox; a completion refers to the activity that it names.
func (s *Store) returned(el eventcodec.Element) Element {
	e := element(el)
	if ev, err := el.Event(); err == nil {
		if c, ok := ev.(*history.ActivityCompleted); ok {
			e.Ref, e.Tag = c.Scheduled, strings.TrimSuffix(strings.TrimPrefix(el.ID, "a"), ".r"+s.Rules.Seal)
		}
	}
	return e
}

// Source reads the history of an execution, and the whole inbox.
func (s Backend) Source(id string, execution uint64) record.RewindSource {
	var out record.RewindSource
	for _, e := range s.Store.Get(id).Histories[execution] {
		out.Events = append(out.Events, []byte(e))
	}
	out.Inbox = s.Inbox(id)
	return out
}

func workers(holders []Holder, deleted []uint64) map[uint64]string {
	var out map[uint64]string
	for _, h := range holders {
		if out == nil {
			out = make(map[uint64]string)
		}
		out[deleted[h.Place-1]] = h.Worker
	}
	return out
}
