package memstore

import (
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/record"
)

// Rules are the intervals and bounds that the scripts use, in the caller's unit of
// time, and the mistake that they make, if any.
type Rules struct {
	Soon              int64 // maximum time until the wakeup of an unread inbox
	Early             int64 // time for which inputs wait for the start of their instance
	ReconcileInterval int64 // maximum time between two reconciliations of outstanding activities
	LeaseTTL          int64
	OwnerTTL          int64
	Claims            int    // a lease that was claimed this often is neither claimed nor cleared again
	Inbox             int    // maximum length of an inbox
	Seen              int64  // time for which the id of a message is remembered
	Seal              string // suffix of the ids of the elements that ingest makes itself
	Wrong             Mistake
}

// Mistake is a deliberate violation of a law.
type Mistake string

// The mistakes. Each is one that a runtime of this kind could make, or has made.
const (
	None                Mistake = ""
	PopByCount          Mistake = "commit pops by count"
	NoPreviousPosition  Mistake = "ingest does not state the position from which it continues"
	BlindNextWakeup     Mistake = "commit writes the next wakeup without checking the inbox"
	BlindRescore        Mistake = "a reconciliation reschedules without checking head and inbox"
	CancelBeforeCreate  Mistake = "commit deletes leases before it creates the new ones"
	AckOfNothing        Mistake = "ack of a deleted lease pushes its completion"
	AckAfterExpiry      Mistake = "ack is accepted after the claim has expired"
	NoHead              Mistake = "commit does not check the head"
	NoFence             Mistake = "an owner's token is not checked"
	NoApplied           Mistake = "renewal does not check the acknowledged commits"
	RequeueUnseen       Mistake = "a reconciliation clears a claim that has not expired"
	ClaimHeld           Mistake = "a held lease can be claimed"
	NoRepeats           Mistake = "ids of ingested messages are not kept"
	EffectIgnored       Mistake = "effect ids are not compared"
	DeferStarted        Mistake = "early inputs are deferred although their start has arrived"
	AckWithoutWakeup    Mistake = "ack does not bring the wakeup forward"
	EventsKept          Mistake = "continue-as-new leaves the length of the old history in the record"
	FrontBehind         Mistake = "the start of the next execution is pushed after unread inputs"
	FrontTwice          Mistake = "a commit that is sent again pushes its front again"
	FrontAfter          Mistake = "the front is pushed after the commit instead of by it"
	FrontUnseen         Mistake = "commit ignores the inputs that it has put in front"
	NoPrune             Mistake = "histories are not pruned"
	IncarnationKeepsEnd Mistake = "a new incarnation keeps the end of the previous one"
	SentBlind           Mistake = "a reconciliation writes the published watermark without comparing heads"
	PurgeBlind          Mistake = "a purge does not compare heads"
	PurgeDropsRest      Mistake = "a purge drops later inputs"
	PurgeLeavesStart    Mistake = "a purge leaves a later start in its place"
	PurgeLeavesPast     Mistake = "a purge leaves the previous execution"
	PurgeLeavesReports  Mistake = "a purge leaves the reports"
	PurgeDropsIDs       Mistake = "a purge removes the ids of ingested messages"
	PurgeUnseen         Mistake = "a purge does not check for later inputs"
	ReportBlind         Mistake = "a report of an unknown instance is recorded"
	ReconcileBlind      Mistake = "a reconciliation schedules an instance that does not exist"
	FullUnsaid          Mistake = "a full inbox does not mark a dropped input"
	FullStart           Mistake = "a full inbox rejects the start of its instance"
	DueUnseen           Mistake = "commit does not compare its decisions by time with unread inputs"
	AppliedUnseen       Mistake = "commit does not compare the applied position of its owner"
	DeferUnseen         Mistake = "a reconciliation defers inputs that the owner has not read"
	RewindBlind         Mistake = "a rewind does not compare the head"
	RewindUnread        Mistake = "a rewind does not detect a completion that the owner has not read"
	RewindForgetful     Mistake = "a rewind does not detect that a completion which the owner has read is lost"
	RewindTwice         Mistake = "a rewind that is sent again pushes its front again"
	RewindNoPrune       Mistake = "a rewind leaves the previous execution"
	RewindKeepsLeases   Mistake = "a rewind leaves the leases"
	RewindKeepsEnd      Mistake = "a rewind leaves the end"
	RewindBehind        Mistake = "a rewind puts its front after unread inputs"
)

// Mistakes lists the mistakes of the scripts.
func Mistakes() []Mistake {
	return []Mistake{
		PopByCount, NoPreviousPosition, BlindNextWakeup, BlindRescore, CancelBeforeCreate, AckOfNothing, AckAfterExpiry, NoHead,
		NoFence, NoApplied, RequeueUnseen, ClaimHeld, NoRepeats, EffectIgnored, AckWithoutWakeup, DeferStarted,
		EventsKept, FrontBehind, FrontTwice, FrontAfter, FrontUnseen, NoPrune, IncarnationKeepsEnd, SentBlind,
		PurgeBlind, PurgeDropsRest, PurgeLeavesStart, PurgeLeavesPast, PurgeLeavesReports, PurgeDropsIDs, PurgeUnseen, ReportBlind, ReconcileBlind,
		FullUnsaid, FullStart, DueUnseen, AppliedUnseen,
		DeferUnseen, RewindBlind, RewindUnread, RewindForgetful, RewindTwice, RewindNoPrune, RewindKeepsLeases, RewindKeepsEnd, RewindBehind,
	}
}

// Position is a position in the inputs stream; the zero Position is before the first message.
type Position struct {
	Seq  uint64
	Time int64
}

// Ownership is the hash `p`.
type Ownership struct {
	Token   string
	Until   int64
	Span    int64 // duration for which it was acquired or renewed
	Epoch   uint64
	Clean   bool
	Applied Position
	Commits int64
}

// Element is one unread input of an instance.
type Element struct {
	ID   string // made by its pusher; a commit names it
	Kind string // start, event, cancel, done
	Time int64
	Ref  uint64 // done: the activity
	Tag  string // done: the effect id; otherwise the id of the message
	Body []byte // the input itself; the scripts do not read it
}

// Lease records that an activity's result is still required.
type Lease struct {
	Effect     string
	Token      string // empty: it is not claimed
	Worker     string
	Until      int64
	Span       int64 // duration of the last claim or renewal
	Claims     int
	ReturnedAt int64 // when it can be claimed again after a worker has returned it
}

// Place identifies an event of an instance; as a watermark it includes all events before it.
type Place struct{ Execution, Event uint64 }

// Less reports whether p is before q.
func (p Place) Less(q Place) bool {
	return p.Execution < q.Execution || p.Execution == q.Execution && p.Event < q.Event
}

// Record is the hash of an instance, with the fields that the scripts use.
type Record struct {
	Head      string // random per commit; empty before the first
	Status    string // empty before the first commit
	Execution uint64 // the current one
	Events    int    // length of its history
	Parent    string
	End       string
	Custom    uint64 // version of the custom status
	Out, Sent Place  // the last event that produced a message, and the last one whose messages are in the stream

	Data *record.Record // the fields that the scripts do not read
}

// HasPending reports whether messages are not recorded as published.
func (r *Record) HasPending() bool { return r.Sent.Less(r.Out) }

// Instance is the content of the keys of one instance.
type Instance struct {
	Record

	Histories map[uint64][]string // by execution; the scripts do not read the events
	Inbox     []Element
	Seen      map[string]int64 // when each message id was ingested
	Leases    map[Place]Lease
	Reports   map[Place]string // how cancelled activities ended

}

// History returns the history of the current execution.
func (in *Instance) History() []string { return in.Histories[in.Execution] }

// Store is one partition as Redis holds it.
type Store struct {
	Rules     Rules
	Owner     Ownership
	Wakeups   map[string]int64 // wakeups of instances
	Limits    map[string]int64 // wakeups of the partition's limits
	Instances map[string]*Instance
}

// NewStore returns an empty partition without an owner.
func NewStore(r Rules) *Store {
	return &Store{Rules: r, Wakeups: map[string]int64{}, Limits: map[string]int64{}, Instances: map[string]*Instance{}}
}

// Clone returns a copy of the partition, like a snapshot on disk.
func (s *Store) Clone() *Store {
	c := &Store{Rules: s.Rules, Owner: s.Owner, Wakeups: maps.Clone(s.Wakeups), Limits: maps.Clone(s.Limits), Instances: make(map[string]*Instance, len(s.Instances))}
	for id, in := range s.Instances {
		c.Instances[id] = &Instance{
			Record: in.Record, Histories: maps.Clone(in.Histories), Inbox: slices.Clone(in.Inbox), Seen: maps.Clone(in.Seen), Leases: maps.Clone(in.Leases),
			Reports: maps.Clone(in.Reports),
		}
		for n, h := range in.Histories {
			c.Instances[id].Histories[n] = slices.Clone(h)
		}
	}
	return c
}

// Get returns the instance, or an empty one that is not part of the store.
func (s *Store) Get(id string) *Instance {
	if in, ok := s.Instances[id]; ok {
		return in
	}
	return &Instance{}
}

// NewInstance returns an empty instance.
func NewInstance() *Instance {
	return &Instance{Histories: map[uint64][]string{}, Seen: map[string]int64{}, Leases: map[Place]Lease{}, Reports: map[Place]string{}}
}

func (s *Store) make(id string) *Instance {
	in, ok := s.Instances[id]
	if !ok {
		in = NewInstance()
		s.Instances[id] = in
	}
	return in
}

// over reports whether a claim or an ownership has expired. If more than its duration span remains, it was made before the clock stepped
// back, and counts as expired.
func over(until, span, now int64) bool { return until <= now || until > now+span }

// wakeBy brings the wakeup of an instance forward to at; it never postpones it.
func (s *Store) wakeBy(id string, at int64) {
	if old, ok := s.Wakeups[id]; !ok || at < old {
		s.Wakeups[id] = at
	}
}

// settle ends every script of the owner: it sets the wakeup to at, which the owner computed (zero: none), or to an earlier time if
// the inbox is unread and not deferred.
func (s *Store) settle(now int64, id string, at int64, d Deferral) {
	in := s.Get(id)
	started := len(in.Inbox) > 0 && in.Inbox[0].Kind == "start"
	deferred := d == DeferAll || d == DeferSeen || d == DeferEarly && (!started || s.Rules.Wrong == DeferStarted)
	if !deferred && len(in.Inbox) > 0 && (at == 0 || at > now+s.Rules.Soon) {
		at = now + s.Rules.Soon
	}
	s.setWakeup(id, at)
}

// setWakeup sets the wakeup of an instance, whatever its inbox contains; zero: none.
func (s *Store) setWakeup(id string, at int64) {
	if at == 0 {
		delete(s.Wakeups, id)
		return
	}
	s.Wakeups[id] = at
}

// Shift moves all times in the store into the past by d, as if d had passed; a negative d is a clock that steps back.
func (s *Store) Shift(d int64) {
	if s.Owner.Token != "" {
		s.Owner.Until -= d
	}
	for id := range s.Wakeups {
		s.Wakeups[id] -= d
	}
	for name := range s.Limits {
		s.Limits[name] -= d
	}
	for _, in := range s.Instances {
		for id := range in.Seen {
			in.Seen[id] -= d
		}
		for a, l := range in.Leases {
			if l.Token != "" {
				l.Until -= d
			}
			if l.ReturnedAt != 0 {
				l.ReturnedAt -= d
			}
			in.Leases[a] = l
		}
	}
}

// Deferral prevents unread inputs from bringing the wakeup forward.
type Deferral string

// The deferrals of an inbox.
const (
	DeferAll   Deferral = "all"   // the instance is stalled: all inputs wait for the next attempt
	DeferSeen  Deferral = "seen"  // the instance is paused: the inputs that the owner has seen wait
	DeferEarly Deferral = "early" // the inputs wait for their start, for a day; a start ends the deferral
)
