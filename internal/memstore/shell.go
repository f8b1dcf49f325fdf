package memstore

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Shell is the in-memory environment of an owner: its store, its limits, the stream of its partition's inputs, and time, which changes only
// when Now is set. It carries out the requests of an owner that need nothing else; turns, tasks and timers are up to its user.
type Shell struct {
	Store  *Store
	Now    int64           // Unix ms: the clock of the store, of the stream and of the owner
	Stream []message.Input // accepted, in order
	Limits Limits
}

// Accept puts an input into the stream.
func (s *Shell) Accept(in message.Input) {
	n := int64(len(s.Stream) + 1)
	in.Pos = history.Position{Seq: uint64(n), Time: s.Now*int64(time.Millisecond) + n}
	s.Stream = append(s.Stream, in)
}

// At returns the position after the first n inputs of the stream.
func (s *Shell) At(n int) history.Position {
	if n == 0 {
		return history.Position{}
	}
	return s.Stream[n-1].Pos
}

// Horizon returns the answer to ReadHorizon.
func (s *Shell) Horizon() *core.Message {
	return &core.Message{Kind: core.HorizonAnswered, Body: message.Accepted{At: time.UnixMilli(s.Now), Last: s.At(len(s.Stream))}}
}

// IDs lists the instances of the store, including those that only have inputs, sorted.
func (s *Shell) IDs() []string {
	ids := make([]string, 0, len(s.Store.Instances))
	for id := range s.Store.Instances {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Within lists the instances whose wakeup is at most span ms away.
func (s *Shell) Within(span int64) (ids []string) {
	for _, id := range s.IDs() {
		if at, listed := s.Store.Wakeups[id]; listed && at <= s.Now+span {
			ids = append(ids, id)
		}
	}
	return ids
}

// Ingest ingests the inputs of the stream after the first from, up to the first to.
func (s *Shell) Ingest(token string, from, to int) (*core.Ingested, error) {
	b := &core.Ingested{Now: s.Now, To: s.At(to)}
	var err error
	for _, in := range s.Stream[from:to] {
		if b.Arrivals, err = core.Arrivals(b.Arrivals, in, s.Store.Rules.Seal); err != nil {
			return nil, err
		}
	}
	batch := make([]record.Message, len(b.Arrivals))
	for i := range b.Arrivals {
		batch[i] = b.Arrivals[i].Msg
	}
	b.Results, err = Backend{s.Store}.Take(s.Now, token, s.At(from), b.To, batch)
	return b, err
}

// Answer carries out a request to the store, or to a limit, and returns its answer; nil: the effect is no such request.
func (s *Shell) Answer(e *core.Effect, token string) *core.Message {
	m := &core.Message{ID: e.ID}
	switch e.Kind {
	case core.CommitTurn:
		m.Kind = core.CommitAnswered
		m.Committed, m.Err = Backend{s.Store}.Write(s.Now, token, e.Commit)
	case core.ReconcileWith:
		m.Kind = core.Reconciled
		m.Reconciled, m.Err = Backend{s.Store}.Reconcile(s.Now, token, e.Recon)
	case core.RemoveInstance:
		m.Kind, m.Body = core.PurgeAnswered, s.Now
		m.Err = Backend{s.Store}.Remove(s.Now, token, e.Body.(*record.Purge))
	case core.LoadInstance:
		m.Kind = core.InstanceLoaded
		m.Body, m.Err = Backend{s.Store}.Load(e.ID)
	case core.ReadInbox:
		m.Kind, m.Body = core.InboxRead, Backend{s.Store}.Unread(e.ID)
	case core.SearchInbox:
		m.Kind, m.Body = core.InboxRead, Backend{s.Store}.Inbox(e.ID)
	case core.ReadHistory:
		m.Kind, m.Body = core.HistoryRead, Backend{s.Store}.Source(e.ID, e.Number)
	case core.RewindInstance:
		m.Kind = core.RewindAnswered
		m.Committed, m.Err = Backend{s.Store}.WriteRewind(s.Now, token, e.Body.(*record.Rewind))
	case core.FetchHead:
		m.Kind, m.Body = core.HeadRead, s.Store.Get(e.ID).Head
	case core.FindWipe:
		m.Kind, m.Body = core.WipeFound, (*core.Wipe)(nil)
	case core.ReadDue:
		m.Kind = core.DueRead
		m.Body, m.Err = Backend{s.Store}.NextDue(s.Now, token, core.DueBatch)
	case core.ReadSchedule:
		m.Kind, m.Body = core.ScheduleRead, s.Within(e.After.Milliseconds())
	case core.ReportLate:
		late := e.Body.(*core.LateReports)
		for _, r := range late.Reports {
			s.Store.Report(e.ID, Place{Execution: late.Execution, Event: r.Activity}, "late", false)
		}
		return nil
	default:
		return s.answerLimit(e)
	}
	return m
}
