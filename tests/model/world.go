package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/turn"
	"github.com/pawlrun/pawl/pkg/history"
)

// Setup is the configuration of a search.
type Setup struct {
	Program string
	Plan    []planned // messages that clients publish, in order
	Faults  Faults
	Inbox   int  // bound of an inbox; 0: practically none
	Retire  bool // ended instances are purged
	Ends    bool // each started instance ends
	Prompt  bool // no input may wait for a wakeup of the store: no doorbell and no reply is lost
	Parked  int  // instances whose code stays in memory; 0: all
	Bare    bool // doorbells carry no completion
	Wrong   memstore.Mistake

	Policies     map[string]history.Policy // of activities and orchestrations
	LimitMistake memlimit.Mistake          // of limits

	programs *author.Registry
}

// Faults are the numbers of faults that may happen.
type Faults struct {
	Rollbacks      int // the store returns to an earlier state, and all processes continue
	Crashes        int // the owner dies and another acquires the partition; requests of the former still arrive
	Resends        int // a reply is lost
	Fails          int // a request is lost
	Deaths         int // a worker dies with its activity
	Losses         int // the tasks stream is deleted
	Doubles        int // a task is delivered twice
	Echoes         int // a request arrives, and a copy of it later
	Repeats        int // a client did not receive its acknowledgement
	Silent         int // a doorbell is lost
	Dues           int // a wakeup is early
	Ticks          int // time passes although nothing waits for it
	Pauses         int // an owner is replaced without noticing: the fence rejects its scripts, except those of limits
	LimitRollbacks int // the store of a limit returns to an earlier state
	Clears         int // a client clears a limit
	Failures       int // an activity fails
	Otherwise      int // a turn has a different side effect: its activities have other tickets
}

const (
	begin   = 1_800_000_000_000 // Unix ms
	forever = 1 << 40
	look    = 4000 // ms between reconciliations
	ttl     = 4000 // ms of a claim
	soon    = 2000 // ms within which an unread inbox is read
	seal    = ".seal"
)

// World is a partition with the real owner, a store, a stream and workers.
type World struct {
	memstore.Shell

	setup           *Setup
	Saved           *memstore.Store // the state that a restart would restore
	Plan            int             // messages published
	Owner           *tenure
	Former          *tenure   // a replaced owner that has not noticed it
	Net             []request // not arrived; they arrive in any order, except that one owner ingests one batch at a time
	Doorbells       []message.Doorbell
	Tasks           []memstore.Claim
	Received        []string // messages of the instances that others have received
	Runs            []run
	Acked           []memstore.Claim // acknowledged, and kept by their workers in case the store loses the ack
	SavedRemoved    map[string]bool  // Removed at the time of Saved
	Removed         map[string]bool  // inputs that a purge has removed, or that were removed unread
	Left            Faults
	Broken          string // a violation that a step has detected
	Tenures         int
	Claims          int
	StoreRolledBack bool              // the store has been rolled back
	Queues          map[string]*queue // at the limits, by name
	AnyRolledBack   bool              // the store or a limit was rolled back: a running activity need not be a holder
	Scripted        bool              // the last step was a script of a limit, whose consequences come later
	Faultless       bool              // no more faults: see Fair
	Lossy           bool              // a reply, a request, a doorbell or an owner was lost: inputs may wait for a wakeup
}

// tenure is an owner with the state of its shell.
type tenure struct {
	*memstore.Tenure

	code   map[string]*code
	sent   int // messages of the stream handed to ingest
	acked  history.Position
	number int64 // of the last commit that was acknowledged
}

// code is an execution in memory, as the events that it has reached.
type code struct{ events []history.Event }

// request is a request of an owner to the store, the stream or the code.
type request struct {
	effect   core.Effect // without a kind: an ingest
	from, to int
	token    string
	unseen   bool // a turn: inputs that had arrived when it began are not among its inputs
	echo     bool // a copy of a retried request: nothing receives its answer
	reply    *core.Message
}

// run is an activity that a worker runs, or assumes that it does.
type run struct {
	claim memstore.Claim
	name  string
	trust int64 // time until which the worker may assume that it has the lease
}

// Step is a possible transition of a world.
type Step struct {
	Name     string
	Optional bool // a fault: nothing relies on it
	do       func(w *World)
}

// String returns the name of the step.
func (s Step) String() string { return s.Name }

// NewWorld returns a world with an owner, and nothing published.
func NewWorld(setup *Setup) *World {
	if setup.programs == nil {
		setup.programs = programs()
	}
	bound := setup.Inbox
	if bound == 0 {
		bound = 100
	}
	rules := memstore.Rules{Soon: soon, LeaseTTL: ttl, OwnerTTL: forever, Claims: 3, Inbox: bound, Seen: forever, Seal: seal, Wrong: setup.Wrong}
	limits := memstore.Limits{Rules: memlimit.Rules{Stale: soon, Wrong: setup.LimitMistake}}
	w := &World{
		Shell: memstore.Shell{Store: memstore.NewStore(rules), Now: begin, Limits: limits}, setup: setup, Left: setup.Faults,
		Removed: map[string]bool{}, Queues: map[string]*queue{},
	}
	w.acquire()
	return w
}

// After returns a copy of the world after the step.
func (w *World) After(s Step) *World {
	c := copied(w)
	c.Do(s)
	return c
}

// Do takes the step in this world.
func (w *World) Do(s Step) {
	was := w.Scripted
	w.Scripted = false
	if s.do(w); was && !w.Scripted {
		w.Now++
	}
	w.Faultless = false
}

// Hash identifies the state.
func (w *World) Hash() [2]uint64 {
	return hashOf(w)
}

func (w *World) acquire() {
	w.Tenures++
	dropRequestsOf(w)
	token := "o" + strconv.Itoa(w.Tenures)
	cfg := core.Config{ReconcileInterval: look * time.Millisecond, MaxClaims: 3, Parked: cmp.Or(w.setup.Parked, 10), Programs: w.setup.programs}
	if w.setup.Retire {
		cfg.Retention = core.Retention{Completed: time.Millisecond, Failed: time.Millisecond, Cancelled: time.Millisecond}
	}
	policies := &limit.Overrides{Policies: map[string]history.Policy{}}
	for action, p := range w.setup.Policies {
		policies.Version, policies.Policies[limit.ActionLevel+action] = 1, p
	}
	t, at, first := memstore.Begin(&w.Shell, token, cfg, look, core.Takeover{Policies: policies})
	w.Owner = &tenure{Tenure: t, code: map[string]*code{}, sent: int(at.Seq), acked: at, number: w.Store.Owner.Commits}
	w.deliver(w.Owner, first)
}

// dropRequestsOf drops the answers to requests of dead owners, and the requests that were not sent.
func dropRequestsOf(w *World) {
	w.Net = slices.DeleteFunc(w.Net, func(r request) bool {
		return !r.outlives() && (w.Former == nil || r.token != w.Former.Token)
	})
}

// dies ends a fenced owner.
func dies(w *World, t *tenure) {
	if t == w.Owner {
		w.acquire()
		return
	}
	w.Former = nil
	w.Net = slices.DeleteFunc(w.Net, func(r request) bool { return !r.outlives() && r.token == t.Token })
}

// deliver passes a message to an owner, and carries out the effects that are answered at once.
func (w *World) deliver(t *tenure, first core.Message) {
	for queue := []core.Message{first}; len(queue) > 0; queue = queue[1:] {
		effects := slices.Clone(t.Core.Step(time.UnixMilli(w.Now), &queue[0]))
		if t.Core.Err() != nil {
			dies(w, t)
			return
		}
		for _, e := range effects {
			if m := w.carryOut(t, &e); m != nil {
				queue = append(queue, *m)
			}
		}
	}
}

// carryOut begins an effect; it returns the answer of one that is answered at once.
func (w *World) carryOut(t *tenure, e *core.Effect) *core.Message {
	if w.ListLimit(e); e.Kind == core.CallLimit && len(e.Call.Enter) > 0 {
		queueOf(w, e.Call.Limit).Unlisted = false
	}
	switch e.Kind {
	case core.CommitTurn, core.ReconcileWith, core.RemoveInstance, core.LoadInstance, core.ReadInbox, core.SearchInbox, core.FetchHead, core.RunTurn, core.PublishMessage,
		core.ReadHistory, core.RewindInstance, core.CallLimit, core.ReleaseTickets, core.SweepLimit, core.RescheduleLimit, core.UnlistLimit, core.FindUnwanted, core.PassNotices:
		w.Net = append(w.Net, request{effect: *e, token: t.Token, unseen: e.Kind == core.RunTurn && w.unseen(e)})
	case core.EvictCode:
		delete(t.code, e.ID)
	case core.PublishTask:
		w.task(memstore.Claim{Instance: e.ID, Execution: e.Rec.Execution, Activity: e.Activity.ID, Effect: e.Activity.Effect, Token: string(e.Activity.Payload.Data)})
		return &core.Message{Kind: core.TaskPublished, ID: e.ID, Event: e.Activity.ID}
	case core.ReadQueueAge:
		return &core.Message{Kind: core.QueueAgeRead, Number: e.Number, Body: core.QueueAge{At: time.UnixMilli(w.Now), Some: len(w.Tasks) > 0}}
	default: // answered at once, logged, counted, or sent to clients
		return t.CarryOut(&w.Shell, e)
	}
	return nil
}

// unseen reports whether an event has arrived that is not among the inputs of a turn.
func (w *World) unseen(e *core.Effect) bool {
	return slices.ContainsFunc(w.Store.Get(e.ID).Inbox, func(x memstore.Element) bool {
		_, event := inputOf(x).(*history.EventReceived)
		return event && !slices.ContainsFunc(e.Given.Inputs, func(u core.Unread) bool { return u.ID == x.ID })
	})
}

// task publishes a task, unless the stream contains it. Its token is the name that the activity returns.
func (w *World) task(g memstore.Claim) {
	if !slices.Contains(w.Tasks, g) {
		w.Tasks = append(w.Tasks, g)
	}
}

// arrive carries out a request. It returns the answer, which a dead owner does not receive.
func (w *World) arrive(r *request) *core.Message {
	s, e := w.Store, &r.effect
	var m *core.Message
	switch e.Kind {
	case core.CommitTurn:
		head, unread, before := s.Get(e.ID).Head, slices.Clone(s.Get(e.ID).Inbox), slices.Clone(s.Get(e.ID).History())
		earlier := ticketStates(e.ID, s.Get(e.ID))
		if m = w.Answer(e, r.token); m.Err == nil && (head == "" || head != e.Commit.NewHead) {
			past, _, _ := foldHistory(before)
			admitted(w, e.ID, earlier, ticketStates(e.ID, s.Get(e.ID)))
			resumed(w, unread, past, e.Decided.Events)
			recordPopped(w, e.ID, unread[:min(len(e.Commit.Pop), len(unread))], head == "" && e.Commit.NewHead == "")
		}
	case core.RemoveInstance:
		before := s.Clone().Get(e.ID)
		if m = w.Answer(e, r.token); m.Err == nil {
			recordPurged(w, before, e.Body.(*record.Purge))
		}
	case core.RewindInstance:
		before := s.Clone().Get(e.ID)
		if m = w.Answer(e, r.token); m.Err == nil {
			rewound(w, before, e.Body.(*record.Rewind))
		}
	case core.RunTurn:
		m = &core.Message{Kind: core.TurnDone, ID: e.ID, Decided: w.turn(tenureOf(w, r.token), e)}
		if r.unseen && slices.ContainsFunc(m.Decided.Events, func(ev history.Event) bool { return ev.Kind() == history.KindObserved }) {
			w.Broken = "a poll is complete before everything that had arrived"
		}
		return m
	case core.PublishMessage:
		if id := e.Input.ID; id != "" && !slices.Contains(w.Received, id) {
			w.Received = append(w.Received, id)
			slices.Sort(w.Received)
		}
		return &core.Message{Kind: core.MessagePublished, ID: e.ID, Number: e.Number}
	case core.CallLimit, core.ReleaseTickets, core.SweepLimit:
		return script(w, r)
	case core.PassNotices:
		pass(w, r)
		return nil
	case core.UnlistLimit:
		queueOf(w, e.ID).Unlisted = true
		return w.Answer(e, r.token)
	case 0:
		m = w.ingest(r)
	default:
		m = w.Answer(e, r.token)
	}
	if m.Err == nil && r.token != s.Owner.Token && r.fenced() {
		w.Broken = fmt.Sprintf("a former owner has written: %s", r)
	}
	return m
}

// outlives reports whether the request may arrive after its owner has died.
func (r *request) outlives() bool {
	switch r.effect.Kind {
	case core.CallLimit, core.ReleaseTickets, core.SweepLimit, core.RescheduleLimit, core.UnlistLimit, core.PassNotices:
		return true
	default:
		return r.fenced()
	}
}

// fenced reports whether only the owner may make the request.
func (r *request) fenced() bool {
	switch r.effect.Kind {
	case 0, core.CommitTurn, core.ReconcileWith, core.RemoveInstance, core.PublishMessage, core.RewindInstance:
		return true
	default:
		return false
	}
}

func (r *request) String() string {
	if r.effect.Kind == 0 {
		return fmt.Sprintf("ingest of %d to %d", r.from+1, r.to)
	}
	return r.effect.String()
}

// ingest ingests a batch of the stream.
func (w *World) ingest(r *request) *core.Message {
	b, err := w.Ingest(r.token, r.from, r.to)
	if b != nil {
		for i, got := range b.Results {
			if got.Unknown {
				w.Removed[w.Stream[r.from+i].ID] = true
			}
		}
	}
	return &core.Message{Kind: core.InputsIngested, Body: b, Err: err}
}

// turn runs the code of an instance. Code is not kept: it is replayed first.
func (w *World) turn(t *tenure, e *core.Effect) *core.Decided {
	g := e.Given
	c := t.code[e.ID]
	if !g.Resident {
		c = &code{events: slices.Clone(g.Events)}
		t.code[e.ID] = c
	}
	if begins := len(g.Inputs) > 0 && g.Inputs[0].Ev != nil && g.Inputs[0].Ev.Kind() == history.KindStarted; !g.Resident && len(g.Events) == 0 && !begins {
		w.Broken = "a turn of an execution that has begun is given no history"
	}
	if c == nil {
		w.Broken = "the owner assumes code in memory that is not there"
		return &core.Decided{}
	}
	exec := replay.New(g.Identity, g.Program, replay.Options{})
	resident, err := turn.Replay(&core.Given{Events: c.events}, exec)
	if err != nil {
		_ = exec.Evict()
		return &core.Decided{Err: err}
	}
	d := turn.Decide(g, resident)
	if !exec.Ended() {
		_ = exec.Evict()
	}
	c.events = append(c.events, d.Events...)
	return d
}

// tenureOf returns the owner of a token; nil: its tenure has ended.
func tenureOf(w *World, token string) *tenure {
	for _, t := range []*tenure{w.Owner, w.Former} {
		if t != nil && t.Token == token {
			return t
		}
	}
	return nil
}

// receive passes the answer, if any, to the owner that has sent the request.
func (w *World) receive(r *request, m *core.Message) {
	t := tenureOf(w, r.token)
	if t == nil || r.echo || m == nil {
		return
	}
	switch {
	case r.effect.Kind == 0 && m.Err != nil:
		dies(w, t)
		return
	case r.effect.Kind == 0:
		t.acked = w.At(r.to)
	case (r.effect.Kind == core.CommitTurn || r.effect.Kind == core.RewindInstance) && m.Err == nil:
		t.number = max(t.number, m.Committed.Number)
	}
	w.deliver(t, *m)
}
