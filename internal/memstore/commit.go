package memstore

import (
	"slices"

	"github.com/pawlrun/pawl/internal/record"
)

// Create is a lease to be created.
type Create struct {
	Activity uint64
	Effect   string
	Token    string // token of the claim that is created with it; empty: none
	Worker   string
}

// Turn is the commit of a turn.
type Turn struct {
	Instance  string
	Execution uint64   // execution of the events and the leases
	Expect    string   // head on which the turn was decided
	Head      string   // new head; empty: only the inbox is consumed
	Pop       []string // ids at the head of the inbox
	Events    []string
	Create    []Create
	Delete    []uint64
	Status    string
	Next      int64 // next wakeup; zero: none
	Deferral  Deferral

	Front          []Element // put before the unread inputs: the start of the next execution, and the inputs carried into it
	Begins         uint64    // new current execution; zero: unchanged
	Parent         string    // with Begins
	NewIncarnation bool      // the execution is another incarnation: the record starts empty
	Prune          uint64    // execution whose history is deleted; zero: none
	End            string
	Custom         uint64
	Out            Place
	Sent           Place

	Data *record.Record // the other fields of the record

	Retain  []string // tickets whose slots are retained from now on
	Release []string // tickets that are no longer retained; Retain may name them again

	Due     int64    // latest time by which the turn has decided: no unread input may be older; zero: none
	Applied Position // position up to which the owner assumes to have ingested, if the turn has decided by time
}

// Holder is a worker with a claim on a lease that a commit deleted.
type Holder struct {
	Place  int // index among the leases to delete, from one
	Worker string
}

// Committed is the answer to a commit.
type Committed struct {
	Answer  Answer
	Holders []Holder
	Inbox   []Element // the unread inputs
	Number  int64     // number of the last commit
}

// Commit writes a whole turn, or nothing.
func (s *Store) Commit(now int64, token string, t Turn) Committed {
	if s.fenced(now, token) {
		return Committed{Answer: Fenced}
	}
	in := s.Get(t.Instance)
	again := t.Head != "" && in.Head == t.Head // an earlier sending succeeded
	if !again && in.Head != t.Expect && s.Rules.Wrong != NoHead {
		return Committed{Answer: Conflict}
	}
	if repeats := again && len(t.Front) > 0; !repeats && len(in.Histories[t.Execution]) != in.Events {
		return Committed{Answer: Conflict}
	}
	if again {
		if s.Rules.Wrong == FrontTwice {
			in.Inbox = append(slices.Clone(t.Front), in.Inbox...)
		}
		return Committed{Answer: OK, Inbox: slices.Clone(in.Inbox), Number: s.Owner.Commits}
	}
	if s.Owner.Applied.Time < t.Applied.Time && s.Rules.Wrong != AppliedUnseen {
		return Committed{Answer: RolledBack}
	}
	if !s.poppable(in, t.Pop) || s.Rules.Wrong != DueUnseen && older(in.Inbox[min(len(t.Pop), len(in.Inbox)):], t.Due) {
		return Committed{Answer: Conflict}
	}
	in = s.make(t.Instance)
	in.Inbox = slices.Clone(in.Inbox[min(len(t.Pop), len(in.Inbox)):])
	if len(t.Events) > 0 {
		in.Histories[t.Execution] = append(in.Histories[t.Execution], t.Events...)
	}
	if s.Rules.Wrong != NoPrune {
		delete(in.Histories, t.Prune)
		in.dropReports(t.Prune)
	}
	holders := s.leases(now, in, t)
	if t.Head != "" {
		s.record(in, t)
	}
	s.front(in, t.Front)
	switch {
	case s.Rules.Wrong == BlindNextWakeup || s.Rules.Wrong == FrontUnseen && len(t.Front) > 0:
		s.setWakeup(t.Instance, t.Next)
	case len(t.Front) > 0:
		s.setWakeup(t.Instance, now)
	default:
		s.settle(now, t.Instance, t.Next, t.Deferral)
	}
	s.Owner.Commits++
	return Committed{Answer: OK, Holders: holders, Inbox: slices.Clone(in.Inbox), Number: s.Owner.Commits}
}

// dueSeen is the number of inputs after the popped ones that a commit compares with its decision by time.
const dueSeen = 16

func older(behind []Element, due int64) bool {
	return slices.ContainsFunc(behind[:min(len(behind), dueSeen)], func(e Element) bool { return e.Time < due })
}

// front puts the elements of the next execution into the inbox.
func (s *Store) front(in *Instance, front []Element) {
	switch s.Rules.Wrong {
	case FrontBehind:
		in.Inbox = append(in.Inbox, front...)
	case FrontAfter:
	default:
		in.Inbox = append(slices.Clone(front), in.Inbox...)
	}
}

func (s *Store) record(in *Instance, t Turn) {
	if t.NewIncarnation {
		end := in.End
		in.Record = Record{Execution: in.Execution}
		if s.Rules.Wrong == IncarnationKeepsEnd {
			in.End = end
		}
	}
	in.Head, in.Status, in.Events, in.Data = t.Head, t.Status, len(in.Histories[t.Execution]), advanced(in.Data, t)
	if len(t.Front) > 0 && s.Rules.Wrong != EventsKept {
		in.Events = 0
	}
	if t.Begins != 0 {
		in.Execution = t.Begins
		if t.Parent != "" {
			in.Parent = t.Parent
		}
	}
	if t.End != "" {
		in.End = t.End
	}
	if t.Custom != 0 {
		in.Custom = t.Custom
	}
	if t.Out != (Place{}) {
		in.Out = t.Out
	}
	if t.Sent != (Place{}) {
		in.Sent = t.Sent
	}
}

// advanced returns the whole record after a commit that writes it.
func advanced(was *record.Record, t Turn) *record.Record {
	if t.Data == nil {
		return nil
	}
	changes := *t.Data
	return (&record.Commit{Record: &changes, NewHead: t.Head, Retain: t.Retain, Release: t.Release}).Advance(was)
}

func (s *Store) poppable(in *Instance, pop []string) bool {
	if s.Rules.Wrong == PopByCount {
		return true
	}
	if len(pop) > len(in.Inbox) {
		return false
	}
	for i, id := range pop {
		if in.Inbox[i].ID != id {
			return false
		}
	}
	return true
}

// leases creates leases and then deletes some: the lease of an activity that a turn schedules and cancels must not stay.
func (s *Store) leases(now int64, in *Instance, t Turn) (holders []Holder) {
	create := func() {
		for _, c := range t.Create {
			l := Lease{Effect: c.Effect}
			if c.Token != "" {
				l.Token, l.Worker, l.Claims, l.Until, l.Span = c.Token, c.Worker, 1, now+s.Rules.LeaseTTL, s.Rules.LeaseTTL
			}
			in.Leases[Place{t.Execution, c.Activity}] = l
		}
	}
	if s.Rules.Wrong != CancelBeforeCreate {
		create()
	}
	for i, a := range t.Delete {
		at := Place{t.Execution, a}
		if l := in.Leases[at]; l.Worker != "" {
			holders = append(holders, Holder{i + 1, l.Worker})
		}
		delete(in.Leases, at)
	}
	if s.Rules.Wrong == CancelBeforeCreate {
		create()
	}
	return holders
}
