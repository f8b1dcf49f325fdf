package core_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/turn"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

var update = flag.Bool("update", false, "write what the interactions produce into their files")

// TestInteractions plays testdata/interactions: the actor without servers. A file is a sequence of commands, each with the effects that
// it leads to. The commands:
//
//	start ID ORCHESTRATION     a start is ingested
//	event ID NAME [unseen]     an event is ingested; unseen: the reply of its ingest was lost
//	complete ID EVENT [silent] a worker pushes a completion; silent: its doorbell is lost
//	due ID                     the schedule names the instance
//	ok ID                      the outstanding request of the instance is carried out, and answered
//	lost ID                    it is carried out, and the reply is lost
//	fail ID                    it is not carried out
//	conflict ID                it is not carried out, because the store has another history than the actor assumes
//	purge ID                   a forced purge is ingested
//	cancel ID                  a cancellation by a client is ingested
//	block ID                   the turn of the instance does not come back
//	leases ID STATUS           its reconciliation is carried out, and finds all leases so: unclaimed, expired, exhausted, missing
//	unpublished ID EVENT       the task of an activity was not accepted by the stream; published: it was
//	sent ID                    the stream acknowledges the messages of the instance
//	unsent ID                  it does not
//	limit OUTCOME              the oldest call of a limit is answered: admitted, waiting, limited, or silent
//	granted ID EVENT           the limit reports that the activity was admitted
//	queue empty                the oldest question to a task queue is answered: it is empty
//	horizon                    the stream has nothing more of the partition
//	tasks-lost                 the TASKS stream has lost its content
//	tenure clean|unclean ID…   the tenure begins, and finds instances that are due
//	crash                      the owner dies, with all that it knows
//	hand-over                  the tenure is to end
//	unfinished                 what the next owner has to repair
//	after DURATION             time passes
//	show ID                    phase, inputs in memory, and what is pending
func TestInteractions(t *testing.T) {
	files, err := filepath.Glob("testdata/interactions/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no interactions", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newInteraction(t).play(string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(text) && !*update {
				t.Errorf("%s is out of date; the actor does this:\n%s", file, got)
			}
		})
	}
}

const seal = ".seal" // of the elements that the owner makes

// interaction is an actor, and a store that keeps what it writes.
type interaction struct {
	t           *testing.T
	cfg         core.Config
	actor       *core.Owner
	now         time.Time
	seq         uint64
	number      int64
	stored      map[string]*stored
	outstanding map[string]core.Effect
	publishing  []core.Effect
	code        map[string]turn.Code
	leases      store.LeaseStatus // that reconciliations find
	members     map[string]limiter.Member
	queued      []core.Effect // calls of limits and questions, in order
}

type stored struct {
	rec    *store.Record
	events []history.Event
	inbox  [][]byte
}

func newInteraction(t *testing.T) *interaction {
	reserve, shipped := pawl.NewActivity[string, string]("reserve"), pawl.NewEvent[string]("shipped")
	handle := pawl.NewOrchestration[string, string]("fulfil")
	parent := pawl.NewOrchestration[string, string]("parent").Do(func(ctx *pawl.Context, in string) (string, error) {
		return handle.Call(ctx, in, pawl.ID("child"))
	})
	fulfil := handle.Do(func(ctx *pawl.Context, in string) (string, error) { return reserve.Call(ctx, in) })
	await := pawl.NewOrchestration[string, string]("await").Do(func(ctx *pawl.Context, _ string) (string, error) {
		if _, err := shipped.Receive(ctx); err != nil {
			return "", err
		}
		return shipped.Receive(ctx)
	})
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	bounded := pawl.NewOrchestration[string, string]("bounded").Do(func(ctx *pawl.Context, in string) (string, error) { return limited.Call(ctx, in) })
	nap := pawl.NewOrchestration[string, string]("nap").Do(func(ctx *pawl.Context, in string) (string, error) { return in, pawl.Sleep(ctx, time.Minute) })
	programs, err := author.NewRegistry(fulfil, await, parent, bounded, nap)
	if err != nil {
		t.Fatal(err)
	}
	x := &interaction{
		t: t, now: time.UnixMilli(1_800_000_000_000), stored: make(map[string]*stored), outstanding: make(map[string]core.Effect), code: make(map[string]turn.Code),
		leases: store.LeaseClaimed, members: make(map[string]limiter.Member),
	}
	x.cfg = core.Config{Look: 10 * time.Second, MaxClaims: 10, Parked: 100, Programs: programs}
	x.crash()
	t.Cleanup(x.crash)
	return x
}

// crash replaces the owner by one that knows nothing.
func (x *interaction) crash() {
	for _, code := range x.code {
		_ = code.Exec.Evict()
	}
	clear(x.code)
	clear(x.outstanding)
	x.queued, x.publishing = nil, nil
	x.actor = core.New(x.cfg, core.Beginning{Seal: seal, Heads: "h", Applied: history.Position{Seq: x.seq, Time: x.now.UnixNano()}}, x.now)
}

// play gives the text with the effects that its commands lead to.
func (x *interaction) play(text string) string {
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		for line := range strings.SplitSeq(block, "\n") {
			if line == "----" {
				break
			}
			fmt.Fprintln(&out, line)
			if strings.HasPrefix(line, "#") {
				continue
			}
			effects := x.command(strings.Fields(line))
			if len(effects) == 0 {
				effects = []string{"(nothing)"}
			}
			fmt.Fprintf(&out, "----\n%s\n", strings.Join(effects, "\n"))
		}
		fmt.Fprintln(&out)
	}
	return strings.TrimSpace(out.String()) + "\n"
}

func (x *interaction) command(args []string) []string {
	id, how := args[len(args)-1], ""
	if len(args) > 1 {
		id = args[1]
	}
	if len(args) > 3 {
		how = args[3]
	}
	switch args[0] {
	case "start":
		return x.ingest(queue.Input{Instance: id, Kind: queue.KindStart, Name: args[2], Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}}, how)
	case "event":
		return x.ingest(queue.Input{Instance: id, Kind: queue.KindEvent, Name: args[2], Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}}, how)
	case "complete":
		return x.complete(id, args[2], how == "silent")
	case "due":
		return x.step(core.Message{Kind: core.DueRead, Body: store.DueSet{Now: x.now.UnixMilli(), Instances: []string{id}}})
	case "purge":
		return x.ingest(queue.Input{Instance: id, Kind: queue.KindPurge, Force: true}, how)
	case "ok", "lost", "fail", "conflict":
		return x.answer(id, args[0])
	case "after":
		d, err := time.ParseDuration(id)
		if err != nil {
			x.t.Fatal(err)
		}
		x.now = x.now.Add(d)
		return x.elapsed(d)
	case "cancel":
		return x.ingest(queue.Input{Instance: id, Kind: queue.KindCancel, By: "ops"}, how)
	case "block":
		delete(x.outstanding, id)
		delete(x.code, id)
		return x.step(core.Message{Kind: core.TurnBlocked, ID: id})
	case "leases":
		x.leases = leaseStatuses[args[2]]
		defer func() { x.leases = store.LeaseClaimed }()
		return x.answer(id, "ok")
	case "published", "unpublished":
		m := core.Message{Kind: core.TaskPublished, ID: id, Event: x.eventID(args[2])}
		if args[0] == "unpublished" {
			m.Err = context.DeadlineExceeded
		}
		return x.step(m)
	case "sent":
		return x.published(id, nil)
	case "unsent":
		return x.published(id, queue.ErrNoStream)
	case "horizon":
		return x.step(core.Message{Kind: core.HorizonAnswered, Body: queue.Accepted{At: x.now}})
	case "limit", "queue":
		return x.dequeue(args[0], id)
	case "granted":
		return x.granted(id, x.eventID(args[2]))
	case "tasks-lost":
		return x.step(core.Message{Kind: core.TasksLost, Body: x.now})
	case "scheduled":
		return x.step(core.Message{Kind: core.ScheduleRead, Body: args[1:]})
	case "tenure":
		found := &core.Takeover{Now: x.now.UnixMilli(), Clean: args[1] == "clean", Due: args[2:], Policies: &limiter.Overrides{}}
		return x.step(core.Message{Kind: core.TenureBegan, Body: found})
	case "crash":
		x.crash()
		return nil
	case "hand-over":
		return x.step(core.Message{Kind: core.HandoverBegan})
	case "unfinished":
		return []string{fmt.Sprint(x.actor.Unfinished())}
	case "show":
		return []string{x.actor.Describe(id)}
	default:
		x.t.Fatalf("unknown command %q", args)
		return nil
	}
}

// step gives the actor a message, and gives the effects.
func (x *interaction) step(m core.Message) (out []string) {
	effects := x.actor.Step(x.now, &m)
	if err := x.actor.Err(); err != nil {
		x.t.Fatalf("%s ends the tenure: %v", &m, err)
	}
	for _, e := range effects {
		switch e.Kind {
		case core.EvictCode:
			if code, ok := x.code[e.ID]; ok && !code.Exec.Ended() {
				_ = code.Exec.Evict()
			}
			delete(x.code, e.ID)
			continue
		case core.ReadHorizon, core.CountLimit:
			continue
		case core.PublishMessage:
			x.publishing = append(x.publishing, e)
		case core.CallGate, core.ReadQueueAge:
			x.queued = append(x.queued, e)
		case core.PostLater:
			x.outstanding["later"] = e
		default:
		}
		if e.Kind <= core.WipeInstance || e.Kind == core.RunTurn {
			x.outstanding[e.ID] = e
		}
		text := e.String()
		if e.Kind == core.ReconcileWith {
			text += fmt.Sprintf(", next in %v", time.UnixMilli(e.Recon.Wakeup).Sub(x.now))
		}
		out = append(out, text)
	}
	return out
}

// elapsed posts what was to be posted by now.
func (x *interaction) elapsed(d time.Duration) []string {
	if e, ok := x.outstanding["later"]; ok && e.After <= d {
		delete(x.outstanding, "later")
		return x.step(*e.Body.(*core.Message))
	}
	return nil
}

func (x *interaction) of(id string) *stored {
	if x.stored[id] == nil {
		x.stored[id] = &stored{}
	}
	return x.stored[id]
}

func (x *interaction) ingest(in queue.Input, how string) []string {
	x.seq++
	in.Pos = history.Position{Seq: x.seq, Time: x.now.UnixNano()}
	arrivals, err := core.Arrivals(nil, in, seal)
	if err != nil {
		x.t.Fatal(err)
	}
	s := x.of(in.Instance)
	if s.inbox = append(s.inbox, arrivals[0].Msg.Element); in.Kind == queue.KindStart { // which goes in front
		s.inbox = append(s.inbox[len(s.inbox)-1:], s.inbox[:len(s.inbox)-1]...)
	}
	b := &core.Ingested{Now: x.now.UnixMilli(), To: in.Pos, Arrivals: arrivals, Results: []store.Ingested{{Exists: s.rec != nil, Unread: len(s.inbox)}}}
	if how == "unseen" {
		b.Results = nil
	}
	return x.step(core.Message{Kind: core.InputsIngested, Body: b})
}

func (x *interaction) complete(id, number string, silent bool) []string {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		x.t.Fatal(err)
	}
	s := x.of(id)
	var effect string
	for _, ev := range s.events {
		if a, ok := ev.(*history.ActivityScheduled); ok && a.ID == n {
			effect = a.Effect
		}
	}
	body, err := history.Encode(&history.ActivityCompleted{Scheduled: n, Result: history.Payload{Type: history.TypeJSON, Data: []byte(`"y"`)}})
	if err != nil {
		x.t.Fatal(err)
	}
	el := history.Element{ID: "a" + effect + ".1", At: x.now.UnixMilli(), Body: body}.Encode()
	s.inbox = append(s.inbox, el)
	if silent {
		return nil
	}
	return x.step(core.Message{Kind: core.DoorbellsReceived, Bells: []queue.Doorbell{{Instance: id, Effect: effect, Element: el}}})
}

// answer carries out the outstanding request of an instance, unless it fails, and posts the answer, unless that is lost.
func (x *interaction) answer(id, how string) []string {
	e, ok := x.outstanding[id]
	if !ok {
		x.t.Fatalf("nothing is outstanding for %s", id)
	}
	delete(x.outstanding, id)
	m := core.Message{ID: id}
	s := x.of(id)
	written := how == "ok" || how == "lost"
	if !written {
		s = &stored{}
	}
	switch e.Kind {
	case core.RunTurn:
		m.Kind, m.Decided = core.TurnDone, x.turn(id, e.Given)
	case core.LoadInstance:
		l := store.Loaded{Events: s.events, Unread: s.inbox}
		if s.rec != nil {
			rec := *s.rec
			l.Record = &rec
		}
		m.Kind, m.Body = core.InstanceLoaded, l
	case core.ReadInbox, core.SearchInbox:
		m.Kind, m.Body = core.InboxRead, s.inbox
	case core.FetchHead:
		m.Kind, m.Body = core.HeadRead, s.head()
	case core.CommitTurn:
		m.Kind = core.CommitAnswered
		if written {
			m.Committed, m.Err = x.commit(s, e.Commit)
		}
	case core.ReconcileWith:
		m.Kind, m.Looked = core.Reconciled, store.Reconciled{Now: x.now.UnixMilli(), Unread: len(s.inbox)}
		for _, l := range e.Recon.Leases {
			m.Looked.Leases = append(m.Looked.Leases, store.LeaseState{Lease: l, Status: x.leases, Until: x.now.UnixMilli() + 10_000})
		}
	case core.RemoveInstance:
		delete(x.stored, id)
		m.Kind, m.Body = core.PurgeAnswered, x.now.UnixMilli()
	case core.FindWipe:
		m.Kind, m.Body = core.WipeFound, (*core.Wipe)(nil)
	default:
		x.t.Fatalf("%s has no answer", &e)
	}
	switch how {
	case "lost", "fail":
		m.Err = context.DeadlineExceeded
	case "conflict":
		m.Err = store.ErrConflict
	}
	return x.step(m)
}

// published answers the publishes of an instance.
func (x *interaction) published(id string, err error) (out []string) {
	all := x.publishing
	x.publishing = nil
	for _, e := range all {
		if e.ID != id {
			x.publishing = append(x.publishing, e)
			continue
		}
		out = append(out, x.step(core.Message{Kind: core.MessagePublished, Number: e.Number, Err: err})...)
	}
	return out
}

var leaseStatuses = map[string]store.LeaseStatus{
	"unclaimed": store.LeaseUnclaimed, "expired": store.ClaimExpired, "exhausted": store.ClaimsExhausted, "missing": store.LeaseMissing,
}

func (x *interaction) eventID(number string) uint64 {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		x.t.Fatal(err)
	}
	return n
}

// dequeue answers the oldest effect of a kind that the store does not answer.
func (x *interaction) dequeue(what, how string) []string {
	kind := map[string]core.EffectKind{"limit": core.CallGate, "queue": core.ReadQueueAge}[what]
	i := slices.IndexFunc(x.queued, func(e core.Effect) bool { return e.Kind == kind })
	if i < 0 {
		x.t.Fatalf("nothing is outstanding for %q", what)
	}
	e := x.queued[i]
	x.queued = slices.Delete(x.queued, i, i+1)
	m := core.Message{Number: e.Number}
	if how == "silent" {
		m.Err = context.DeadlineExceeded
	}
	switch what {
	case "queue":
		m.Kind, m.Body = core.QueueAgeRead, core.QueueAge{}
	default:
		m.Kind, m.Admitted.Now = core.GateAnswered, x.now.UnixMilli()
		outcome := map[string]limiter.Kind{"admitted": limiter.Admitted, "waiting": limiter.Waiting, "limited": limiter.Limited}[how]
		for range e.Call.Enter {
			m.Admitted.Verdicts = append(m.Admitted.Verdicts, limiter.Verdict{Kind: outcome})
		}
		for _, entry := range e.Call.Enter {
			x.members[entry.Member.Instance] = entry.Member
		}
	}
	return x.step(m)
}

// granted reports a grant to an instance, as the owner of the limit does.
func (x *interaction) granted(id string, _ uint64) []string {
	n := core.GateNotice{Gate: "limited", Member: x.members[id], Kind: limiter.Admitted, At: x.now.UnixMilli()}
	return x.step(core.Message{Kind: core.NoticesPassed, Body: []core.GateNotice{n}})
}

// turn has the code decide.
func (x *interaction) turn(id string, g *core.Given) *core.Decided {
	code := x.code[id]
	if !g.Resident {
		var err error
		if code, err = turn.Replay(g, replay.New(g.Identity, g.Program, replay.Options{})); err != nil {
			x.t.Fatal(err)
		}
	}
	x.code[id] = code
	return turn.Decide(g, code)
}

func (s *stored) head() string {
	if s.rec == nil {
		return ""
	}
	return s.rec.Head
}

func (x *interaction) commit(s *stored, c *store.Commit) (store.Committed, error) {
	switch {
	case c.NewHead != "" && s.head() == c.NewHead: // a repeat
	case s.head() != c.Head:
		return store.Committed{}, fmt.Errorf("head is %q: %w", s.head(), store.ErrConflict)
	default:
		for _, id := range c.Pop {
			if el, err := history.ParseElement(s.inbox[0]); err != nil || el.ID != id {
				x.t.Fatalf("the commit takes out %q, and the inbox begins with %q: %v", id, el.ID, errors.Join(err))
			}
			s.inbox = s.inbox[1:]
		}
		for _, b := range c.Events {
			ev, err := history.Decode(uint64(len(s.events)+1), b)
			if err != nil {
				x.t.Fatal(err)
			}
			s.events = append(s.events, ev)
		}
		if c.NewHead != "" {
			rec := *c.Record
			s.rec = core.AdvanceRecord(s.rec, &store.Commit{Record: &rec, NewHead: c.NewHead})
			s.rec.Events = uint64(len(s.events))
		}
		x.number++
	}
	return store.Committed{Now: x.now.UnixMilli(), Unread: s.inbox, Number: x.number}, nil
}
