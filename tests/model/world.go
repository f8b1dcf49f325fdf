package model

import (
	"cmp"
	"fmt"
	"reflect"
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

// Setup is what a search is about.
type Setup struct {
	Program string
	Plan    []planned // what clients publish, in order
	Faults  Faults
	Inbox   int  // bound of an inbox; 0: as good as none
	Retire  bool // an instance that has ended is not kept
	Ends    bool // each instance that was started ends
	Prompt  bool // nothing may wait for the wakeups of the store: no doorbell and no reply is lost
	Parked  int  // instances whose code stays in memory; 0: all
	Bare    bool // doorbells carry no completion
	Wrong   memstore.Mistake

	Policies map[string]history.Policy // of activities and orchestrations
	Unfair   memlimit.Mistake          // of limits

	programs *author.Registry
}

// Faults are how often the world may do each.
type Faults struct {
	Rollbacks int // the store returns to an earlier state, while all processes go on
	Crashes   int // the owner dies and another acquires; what it had sent still arrives
	Resends   int // a reply is lost
	Fails     int // a request is lost
	Deaths    int // a worker dies with its activity
	Losses    int // the tasks stream is deleted
	Doubles   int // a task is delivered twice
	Echoes    int // a request arrives, and once more later
	Repeats   int // a client did not see its acknowledgement
	Silent    int // a doorbell is lost
	Dues      int // a wakeup comes before its time
	Ticks     int // time passes though nothing waits for it
	Pauses    int // an owner is replaced without noticing: what it does meets the fence, but no limit has one
	Forgets   int // the store of a limit returns to an earlier state
	Clears    int // a client clears a limit
	Failures  int // an activity fails
	Otherwise int // a turn has another side effect: what it schedules has other tickets
}

const (
	begin   = 1_800_000_000_000 // Unix ms
	forever = 1 << 40
	look    = 4000 // ms between reconciliations
	ttl     = 4000 // ms of a claim
	soon    = 2000 // ms within which an unread inbox is read
	seal    = ".seal"
)

// World is a partition, and all that deals with it: an owner, which is the real one, the store, the stream, workers.
type World struct {
	memstore.Shell

	setup    *Setup
	Saved    *memstore.Store // what a restart would remember
	Plan     int             // messages published
	Owner    *tenure
	Former   *tenure   // that assumes that it still is the owner
	Net      []request // that have not arrived; they do so in any order, except that one owner ingests one batch at a time
	Bells    []message.Doorbell
	Tasks    []memstore.Claim
	Told     []string // messages that others have from the instances
	Runs     []run
	Acked    []memstore.Claim // acknowledged, and remembered by their workers in case the store forgets it
	SavedIDs map[string]bool  // Spent, when that was saved
	Spent    map[string]bool  // inputs that are gone with a purge, or were taken out unread
	Left     Faults
	Broken   string // what a step itself saw go wrong
	Tenures  int
	Claims   int
	Forgot   bool              // the store has been rolled back
	Queues   map[string]*queue // at the limits, by name
	Vague    bool              // the store, or a limit, has been rolled back: who runs need not be a holder
	Scripted bool              // the last step was a script of a limit: what follows from it comes later
	Calm     bool              // nothing goes wrong any more: see Fair
	Unheard  bool              // a reply, a request or a doorbell was lost, or an owner: what follows may wait for a wakeup
}

// tenure is an owner and what its shell has.
type tenure struct {
	*memstore.Tenure

	code   map[string]*code
	sent   int // messages of the stream handed to ingest
	acked  history.Position
	number int64 // of the last commit that was acknowledged
}

// code is an execution in memory: the events that it has come to.
type code struct{ events []history.Event }

// request is what an owner has requested of the store, of the stream or of the code.
type request struct {
	effect   core.Effect // of no kind: an ingest
	from, to int
	token    string
	unseen   bool // a turn: inputs that had arrived when it began are not among those that it is given
	echo     bool // the client's own retry has left it behind: nothing receives the answer
	reply    *core.Message
}

// run is an activity that a worker runs, or assumes that it does.
type run struct {
	grip  memstore.Claim
	name  string
	trust int64 // until when the worker may assume that it has the lease
}

// Step is something that can happen.
type Step struct {
	Name     string
	Optional bool // a fault: nothing relies on it
	do       func(w *World)
}

// String is its name.
func (s Step) String() string { return s.Name }

// NewWorld begins with an owner, and nothing published.
func NewWorld(setup *Setup) *World {
	if setup.programs == nil {
		setup.programs = programs()
	}
	bound := setup.Inbox
	if bound == 0 {
		bound = 100
	}
	rules := memstore.Rules{Soon: soon, LeaseTTL: ttl, OwnerTTL: forever, Claims: 3, Inbox: bound, Seen: forever, Seal: seal, Wrong: setup.Wrong}
	limits := memstore.Limits{Rules: memlimit.Rules{Stale: soon, Wrong: setup.Unfair}}
	w := &World{
		Shell: memstore.Shell{Store: memstore.NewStore(rules), Now: begin, Limits: limits}, setup: setup, Left: setup.Faults,
		Spent: map[string]bool{}, Queues: map[string]*queue{},
	}
	w.acquire()
	return w
}

// After returns the world in which the step has happened.
func (w *World) After(s Step) *World {
	c := copied(w)
	c.Do(s)
	return c
}

// Do has the step happen in this very world.
func (w *World) Do(s Step) {
	was := w.Scripted
	w.Scripted = false
	if s.do(w); was && !w.Scripted {
		w.Now++
	}
	w.Calm = false
}

// Hash identifies the state.
func (w *World) Hash() [2]uint64 {
	h := hash{a: 1, b: 2}
	h.value(reflect.ValueOf(w).Elem())
	return [2]uint64{h.a, h.b}
}

func (w *World) acquire() {
	w.Tenures++
	silence(w)
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
	w.tell(w.Owner, first)
}

// silence has the requests of owners that have died not answered: those that have not been sent are not any more.
func silence(w *World) {
	w.Net = slices.DeleteFunc(w.Net, func(r request) bool {
		return !r.outlives() && (w.Former == nil || r.token != w.Former.Token)
	})
}

// dies has an owner end that finds itself fenced.
func dies(w *World, t *tenure) {
	if t == w.Owner {
		w.acquire()
		return
	}
	w.Former = nil
	w.Net = slices.DeleteFunc(w.Net, func(r request) bool { return !r.outlives() && r.token == t.Token })
}

// `tell` gives an owner a message, and carries out the effects that are answered at once.
func (w *World) tell(t *tenure, first core.Message) {
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
		core.ReadHistory, core.RewindInstance, core.CallLimit, core.ReleaseTickets, core.SweepLimit, core.RelistLimit, core.UnlistLimit, core.FindUnwanted, core.PassNotices:
		w.Net = append(w.Net, request{effect: *e, token: t.Token, unseen: e.Kind == core.RunTurn && w.unseen(e)})
	case core.EvictCode:
		delete(t.code, e.ID)
	case core.PublishTask:
		w.task(memstore.Claim{Instance: e.ID, Execution: e.Rec.Execution, Activity: e.Activity.ID, Effect: e.Activity.Effect, Token: string(e.Activity.Payload.Data)})
		return &core.Message{Kind: core.TaskPublished, ID: e.ID, Event: e.Activity.ID}
	case core.ReadQueueAge:
		return &core.Message{Kind: core.QueueAgeRead, Number: e.Number, Body: core.QueueAge{At: time.UnixMilli(w.Now), Some: len(w.Tasks) > 0}}
	default: // what is answered at once; or what is logged, counted, or sent to clients
		return t.CarryOut(&w.Shell, e)
	}
	return nil
}

// unseen reports whether an event has arrived that a turn is not given.
func (w *World) unseen(e *core.Effect) bool {
	return slices.ContainsFunc(w.Store.Get(e.ID).Inbox, func(x memstore.Element) bool {
		_, event := inputOf(x).(*history.EventReceived)
		return event && !slices.ContainsFunc(e.Given.Inputs, func(u core.Unread) bool { return u.ID == x.ID })
	})
}

// task publishes a task, unless the same is in the stream. Its token is the name that the activity returns.
func (w *World) task(g memstore.Claim) {
	if !slices.Contains(w.Tasks, g) {
		w.Tasks = append(w.Tasks, g)
	}
}

// arrive has a request carried out. It returns the answer, which its owner may be too dead to receive.
func (w *World) arrive(r *request) *core.Message {
	s, e := w.Store, &r.effect
	var m *core.Message
	switch e.Kind {
	case core.CommitTurn:
		head, unread, before := s.Get(e.ID).Head, slices.Clone(s.Get(e.ID).Inbox), slices.Clone(s.Get(e.ID).History())
		seated := seats(e.ID, s.Get(e.ID))
		if m = w.Answer(e, r.token); m.Err == nil && (head == "" || head != e.Commit.NewHead) {
			past, _, _ := fold(before)
			admitted(w, e.ID, seated, seats(e.ID, s.Get(e.ID)))
			resumed(w, unread, past, e.Decided.Events)
			popped(w, e.ID, unread[:min(len(e.Commit.Pop), len(unread))], head == "" && e.Commit.NewHead == "")
		}
	case core.RemoveInstance:
		before := s.Clone().Get(e.ID)
		if m = w.Answer(e, r.token); m.Err == nil {
			purged(w, before, e.Body.(*record.Purge))
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
		if id := e.Input.ID; id != "" && !slices.Contains(w.Told, id) {
			w.Told = append(w.Told, id)
			slices.Sort(w.Told)
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
	case core.CallLimit, core.ReleaseTickets, core.SweepLimit, core.RelistLimit, core.UnlistLimit, core.PassNotices:
		return true
	default:
		return r.fenced()
	}
}

// fenced reports whether only the owner may have the request carried out.
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

// ingest takes a batch of the stream.
func (w *World) ingest(r *request) *core.Message {
	b, err := w.Ingest(r.token, r.from, r.to)
	if b != nil {
		for i, got := range b.Results {
			if got.Unknown {
				w.Spent[w.Stream[r.from+i].ID] = true
			}
		}
	}
	return &core.Message{Kind: core.InputsIngested, Body: b, Err: err}
}

// turn has the code of an instance decide. Code is not kept: it is brought to where it was.
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

// tenureOf finds the owner of a token; nil: it is over.
func tenureOf(w *World, token string) *tenure {
	for _, t := range []*tenure{w.Owner, w.Former} {
		if t != nil && t.Token == token {
			return t
		}
	}
	return nil
}

// `hear` gives the owner that has sent a request the answer, if there is one.
func (w *World) hear(r *request, m *core.Message) {
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
	w.tell(t, *m)
}
