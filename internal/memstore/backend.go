package memstore

import (
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Backend carries out the requests of an owner to the store, in the types and with the errors of package record.
type Backend struct{ Store *Store }

func (a Answer) err() error {
	switch a {
	case OK, Done:
		return nil
	case Fenced:
		return record.ErrFenced
	case RolledBack:
		return record.ErrRolledBack
	case Conflict:
		return record.ErrConflict
	default:
		return fmt.Errorf("%w: %s", record.ErrRefused, a)
	}
}

// Take ingests a batch; the results are nil if it has been ingested before.
func (s Backend) Take(now int64, token string, from, to history.Position, batch []record.Message) ([]record.Ingested, error) {
	messages := make([]Message, len(batch))
	for i, m := range batch {
		el, err := eventcodec.ParseElement(m.Element)
		if err != nil {
			return nil, err
		}
		kind := map[record.MessageKind]string{record.StartMessage: "start", record.PlainStart: "start", record.CancelMessage: "cancel", record.OtherMessage: "event"}[m.Kind]
		messages[i] = Message{Instance: m.Instance, ID: m.ID, Kind: kind, Sent: el.At, Element: el.ID, Body: el.Body, Update: m.Kind == record.UpdateMessage, Plain: m.Kind == record.PlainStart}
	}
	answer, fates := s.Store.Ingest(now, token, Position(from), Position(to), messages)
	if answer != OK {
		return nil, answer.err()
	}
	out := make([]record.Ingested, len(fates))
	for i, fate := range fates {
		switch fate {
		case Repeat:
			out[i].Repeat = true
		case Full:
			out[i].Full = true
		case Unknown:
			out[i].Unknown = true
		default:
			out[i].Exists = fate[0] == 'e'
			if _, err := fmt.Sscan(fate[1:], &out[i].Unread); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Write commits a turn.
func (s Backend) Write(now int64, token string, c *record.Commit) (record.Committed, error) {
	t := Turn{
		Instance: c.Instance, Execution: c.Execution, Expect: c.Head, Head: c.NewHead, Pop: c.Pop, Status: string(c.From), Next: c.Wakeup, Prune: c.Prune,
		Due: c.Due, Applied: Position{Time: c.Applied}, Data: c.Record, Retain: c.Retain, Release: c.Release,
	}
	for _, e := range c.Events {
		t.Events = append(t.Events, string(e))
	}
	for _, l := range c.Create {
		n := Create{Activity: l.Activity, Effect: l.Effect}
		if l.Claim != nil {
			n.Token, n.Worker = l.Claim.Token, l.Claim.Worker
		}
		t.Create = append(t.Create, n)
	}
	for _, l := range c.Delete {
		t.Delete = append(t.Delete, l.Activity)
	}
	for _, b := range c.Prepend {
		el, err := eventcodec.ParseElement(b)
		if err != nil {
			return record.Committed{}, err
		}
		t.Front = append(t.Front, element(el))
	}
	if r := c.Record; r != nil {
		if r.Status != "" {
			t.Status = string(r.Status)
		}
		if r.Name != "" {
			t.Begins = r.Execution
		}
		if r.Parent != nil {
			t.Parent = r.Parent.Instance
		}
		t.NewIncarnation, t.End, t.Custom, t.Out, t.Sent = r.NewIncarnation, string(r.End), r.CustomVersion, Place(r.Produced), Place(r.Published)
	}
	got := s.Store.Commit(now, token, t)
	out := record.Committed{Now: now, Number: got.Number, Unread: elements(got.Inbox), Workers: workers(got.Holders, t.Delete)}
	return out, got.Answer.err()
}

func element(el eventcodec.Element) Element {
	kind := "event"
	switch {
	case strings.HasPrefix(el.ID, "!"):
		kind = "start"
	case strings.HasPrefix(el.ID, "a"):
		kind = "done"
	}
	return Element{ID: el.ID, Kind: kind, Time: el.At, Body: el.Body}
}

// elements returns the encoded head of an inbox.
func elements(inbox []Element) [][]byte { return encoded(inbox[:min(len(inbox), record.UnreadBatch)]) }

func encoded(inbox []Element) [][]byte {
	out := make([][]byte, 0, len(inbox))
	for _, e := range inbox {
		out = append(out, eventcodec.Element{ID: e.ID, At: e.Time, Body: e.Body}.Encode())
	}
	return out
}

// Unread reads the head of an inbox.
func (s Backend) Unread(id string) [][]byte { return elements(s.Store.Get(id).Inbox) }

// Inbox reads all of an inbox.
func (s Backend) Inbox(id string) [][]byte { return encoded(s.Store.Get(id).Inbox) }

// Record reads a record; nil: there is none.
func (s Backend) Record(id string) *record.Record {
	in := s.Store.Get(id)
	if in.Head == "" {
		return nil
	}
	r := *in.Data
	r.Head, r.Status, r.Execution, r.End, r.CustomVersion = in.Head, record.Status(in.Status), in.Execution, []byte(in.End), in.Custom
	r.Produced, r.Published, r.NewIncarnation = record.Watermark(in.Out), record.Watermark(in.Sent), false
	if !r.Status.Ended() {
		r.Events = uint64(in.Events) //nolint:gosec // a length
	}
	return &r
}

// Load reads an instance.
func (s Backend) Load(id string) (record.Loaded, error) {
	in := s.Store.Get(id)
	out := record.Loaded{Record: s.Record(id), Unread: elements(in.Inbox)}
	if out.Record == nil {
		return out, nil
	}
	var err error
	ended := out.Record.Status.Ended()
	if !ended {
		if out.Events, err = Events(in.History()); err != nil {
			return out, err
		}
	}
	if out.Record.HasPendingMessages() && (ended || in.Out.Execution < in.Execution) {
		out.Previous, err = Events(in.Histories[in.Out.Execution])
	}
	return out, err
}

// Events decodes a history.
func Events(encoded []string) ([]history.Event, error) {
	out := make([]history.Event, 0, len(encoded))
	for i, e := range encoded {
		ev, err := eventcodec.Decode(uint64(i+1), []byte(e))
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
	return out, nil
}

// Reconcile repairs the leases of an instance, and sets its next wakeup.
func (s Backend) Reconcile(now int64, token string, l *record.Reconciliation) (record.Reconciled, error) {
	g := Reconciliation{Instance: l.Instance, Execution: l.Execution, Head: l.Head, Next: l.Wakeup, Sent: Place(l.Published)}
	g.Deferral = map[record.Deferral]Deferral{record.DeferAll: DeferAll, record.DeferEarly: DeferEarly}[l.Deferral]
	if n, err := fmt.Sscanf(string(l.Deferral), "n%d", &g.Seen); n == 1 && err == nil {
		g.Deferral = DeferSeen
	}
	for _, x := range l.Leases {
		g.Leases = append(g.Leases, Create{Activity: x.Activity, Effect: x.Effect})
	}
	answer, unread, states := s.Store.Reconcile(now, token, g)
	out := record.Reconciled{Now: now, Unread: unread}
	for i, state := range states {
		x := s.Store.Get(l.Instance).Leases[Place{l.Execution, l.Leases[i].Activity}]
		out.Leases = append(out.Leases, record.LeaseState{
			Lease: l.Leases[i], Status: record.LeaseStatus(state[0]), Claims: x.Claims, Until: x.Until, Span: x.Span, Token: x.Token, Worker: x.Worker, ReturnedAt: x.ReturnedAt,
		})
	}
	return out, answer.err()
}

// Remove purges an instance.
func (s Backend) Remove(now int64, token string, p *record.Purge) error {
	return s.Store.Purge(now, token, Purge{Instance: p.Instance, Execution: p.Execution, Head: p.Head, Pop: p.Pop, Applied: p.Applied}).err()
}

// NextDue returns at most limit instances and limits that are due, and postpones their wakeups.
func (s Backend) NextDue(now int64, token string, limit int) (record.DueSet, error) {
	answer, due, visits := s.Store.Due(now, token, limit)
	return record.DueSet{Now: now, Instances: due.IDs, Next: due.Next, Limits: visits.IDs, NextLimit: visits.Next}, answer.err()
}

// Complete acknowledges an activity with its result. It returns the pushed element, and whether the inbox was empty before.
func (s *Store) Complete(now int64, g Claim, end history.Event) (answer Answer, pushed []byte, first bool) {
	body, err := eventcodec.Encode(end)
	if err != nil {
		return Gone, nil, false
	}
	answer, length := s.Ack(now, g)
	if answer != OK {
		return answer, nil, false
	}
	inbox := s.Get(g.Instance).Inbox
	e := &inbox[len(inbox)-1]
	e.Body = body
	return OK, eventcodec.Element{ID: e.ID, At: e.Time, Body: body}.Encode(), length == 1
}
