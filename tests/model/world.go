package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Setup is what a search is about.
type Setup struct {
	Rules   Rules
	Program Program
	Plan    []Message // what clients publish, in order; At is set when it is published
	Faults  Faults
	Pipe    int // requests that an owner has in flight
	Hurry   bool
	Retire  bool // who has ended is not kept
}

// Faults are how often the world may do each.
type Faults struct {
	Rollbacks int // the store goes back to an earlier moment, under whoever lives
	Crashes   int // the owner dies and another acquires; what it had sent still arrives
	Resends   int // a reply is lost and the request sent again
	Deaths    int // a worker dies with its activity
	Losses    int // the tasks stream is deleted
	Doubles   int // a task is delivered twice
	Echoes    int // a request is sent again, and the first arrives later all the same
	Repeats   int // a client did not see its PubAck
	Ticks     int // that time passes more than the protocol makes it
}

// World is a partition and everybody who deals with it.
type World struct {
	setup  *Setup
	Store  *Store
	Saved  *Store // what a restart would remember
	Now    int64
	Stream []Message
	Plan   int // messages published
	Owner  Owner
	Net    []Request // in flight to the store; they arrive in any order
	Tasks  []Grip    // published, without tokens
	Told   []string  // messages that others have from the instances: their effects
	Runs   []Run
	Acked  []Grip // acknowledged, and remembered by their workers in case the store forgets it
	Left   Faults
	Broken string // what a step itself saw go wrong
	nonce  int
	forgot bool // the store has been rolled back
}

// Owner is what the owner of the partition has in memory: it may be wrong, and must do no harm.
type Owner struct {
	Token   string
	Era     int      // how often it has gone back to what the store has
	Sent    uint64   // highest sequence handed to ingest
	Acked   Position // highest that was acknowledged
	Commits int64    // likewise
	Time    int64    // every input that was accepted before has been ingested
	Parked  map[string]Parked
	Busy    map[string]bool // a request about the instance is in flight
	Handed  map[string]bool // due has named the instance, and nobody has looked yet
	Owed    map[string][]Debt
	Paid    map[string]Place // up to where the stream has acknowledged them, as far as this owner has seen
}

// Parked is an instance at the end of its history, in memory.
type Parked struct {
	Head, Status string
	Execution    uint64
	History      []string
}

// Request is a call of a script, in flight.
type Request struct {
	Script   string
	Token    string
	Instance string
	From, To Position
	Batch    []Message
	Turn     Turn
	Parked   Parked // commit: what the owner will park
	Glance   Glance
	Purge    Purge
	Era      int  // of the owner, when it sent it
	Echo     bool // a copy that the client's own retry left behind: nobody hears the answer
}

// Run is an activity that a worker runs, or believes to.
type Run struct {
	Grip  Grip
	Trust int64 // until when the worker may believe
}

// Step is something that can happen.
type Step struct {
	Name     string
	Optional bool // a fault or a hurry: nothing relies on it
	do       func(w *World)
}

// String is its name.
func (s Step) String() string { return s.Name }

// NewWorld begins with an owner, and nothing published.
func NewWorld(setup *Setup) *World {
	w := &World{setup: setup, Store: NewStore(setup.Rules), Now: 1000, Left: setup.Faults}
	w.acquire()
	return w
}

// After gives the world in which the step has happened.
func (w *World) After(s Step) *World {
	c := *w
	c.Store = w.Store.Clone()
	c.Stream, c.Net = slices.Clone(w.Stream), slices.Clone(w.Net)
	c.Tasks, c.Runs, c.Acked = slices.Clone(w.Tasks), slices.Clone(w.Runs), slices.Clone(w.Acked)
	c.Owner.Parked, c.Owner.Busy = maps.Clone(w.Owner.Parked), maps.Clone(w.Owner.Busy)
	c.Owner.Handed, c.Owner.Owed, c.Owner.Paid = maps.Clone(w.Owner.Handed), maps.Clone(w.Owner.Owed), maps.Clone(w.Owner.Paid)
	c.Told = slices.Clone(w.Told)
	s.do(&c)
	return &c
}

func (w *World) fresh() string {
	w.nonce++
	return "~" + strconv.Itoa(w.nonce)
}

func (w *World) acquire() {
	token := w.fresh()
	if a, applied, _ := w.Store.Acquire(w.Now, token); a == OK {
		w.Owner = Owner{Token: token}
		w.forget(applied)
	}
}

func (w *World) forget(applied Position) {
	o := &w.Owner
	o.Era++
	o.Sent, o.Acked, o.Commits = applied.Seq, applied, w.Store.Owner.Commits
	o.Parked, o.Busy, o.Handed = map[string]Parked{}, map[string]bool{}, map[string]bool{}
	o.Owed, o.Paid = map[string][]Debt{}, map[string]Place{}
	o.Time = 0 // a tenure begins without a horizon: what was known of the stream was known of inputs that Redis may have forgotten
}

// drop makes the owner forget an instance.
func (o *Owner) drop(id string) {
	delete(o.Parked, id)
	delete(o.Owed, id)
	delete(o.Paid, id)
}

// reload sends the owner back to what the store has. What is in flight stays in flight.
func (w *World) reload() { w.forget(w.Store.Owner.Applied) }

func (w *World) at(seq uint64) Position {
	if seq == 0 {
		return Position{}
	}
	return w.Stream[seq-1].At
}

// inflight counts the living owner's own requests.
func (w *World) inflight() (n int) {
	for _, r := range w.Net {
		if r.Token == w.Owner.Token {
			n++
		}
	}
	return n
}

func (w *World) publish(m Message) {
	n := len(w.Stream) + 1
	m.At, m.Sent = Position{Seq: uint64(n), Time: int64(n)}, w.Now
	w.Stream = append(w.Stream, m)
}

// task publishes a task, unless the same is in the stream.
func (w *World) task(instance string, execution uint64, l Create) {
	g := Grip{Instance: instance, Execution: execution, Activity: l.Activity, Effect: l.Effect}
	if slices.Contains(w.Tasks, g) {
		return
	}
	w.Tasks = append(w.Tasks, g)
	slices.SortFunc(w.Tasks, func(a, b Grip) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Effect, b.Effect))
	})
}

// later reports whether something waits for time to pass.
func (w *World) later() bool {
	for _, at := range w.Store.Agenda {
		if at > w.Now {
			return true
		}
	}
	return slices.ContainsFunc(w.Runs, func(r Run) bool { return r.Trust > w.Now })
}
