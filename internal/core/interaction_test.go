package core_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/scenario"
	"github.com/pawlrun/pawl/internal/turn"
	"github.com/pawlrun/pawl/pkg/history"
)

// TestInteractionsPlayAsRecorded plays testdata/interactions: an owner without servers. A file is a sequence of commands, each with the resulting
// effects. The commands:
//
//	start ID ORCHESTRATION     a start is ingested; at=DURATION: a delayed one; within=DURATION: with a timeout of the run;
//	                           of=EFFECT: by a parent; restart: it terminates an instance with its id
//	event ID NAME [unseen]     an event is ingested; unseen: the reply of its ingest was lost
//	events ID NAME N           the inbox of the instance has N events more, which the owner has not read
//	update ID NAME UPDATE      an update is ingested
//	complete ID EVENT [silent] a worker pushes a completion; silent: its doorbell is lost; failed: a permanent failure; retryable: a failure that is retried
//	due ID                     the schedule names the instance
//	ok ID                      the outstanding request of the instance is executed and answered
//	carried ID                 it is executed; a later ok answers
//	lost ID                    it is executed, and the reply is lost
//	fail ID                    it is not executed
//	conflict ID                it is not executed, because the stored history differs from the one that the owner assumes
//	purge ID                   a forced purge is ingested
//	cancel ID                  a cancellation by a client is ingested; of=EFFECT: by the parent, for the start of that effect
//	pause ID [stop]            a request of an operator is ingested, as are resume, terminate, retry, and rewind ID EVENT;
//	                           terminate ID of=EFFECT: by the parent, for the start of that effect
//	block ID                   the turn of the instance does not return
//	leases ID STATUS           its reconciliation is executed, and finds all leases unclaimed, expired, exhausted or missing
//	unpublished ID EVENT       the stream has not accepted the task of an activity; published: it has
//	sent ID [TO]               the stream acknowledges the messages of the instance, or the one to instance TO
//	unsent ID                  the stream does not acknowledge them
//	limit OUTCOME              the oldest call of a limit is answered: admitted, waiting, limited, or silent
//	granted ID EVENT           the limit reports that the activity was admitted
//	queue empty                the oldest read of a task queue is answered: it is empty
//	horizon [more]             the stream has no more inputs of the partition; more: it has one, which the next command that ingests an input ingests
//	tasks-lost                 the TASKS stream has lost its content
//	tenure clean|unclean ID…   the tenure begins, and finds instances that are due
//	crash                      the owner dies, and its memory is lost
//	save                       the state of the store is saved; rollback: the saved state is restored
//	hand-over                  the owner begins to hand over the partition
//	unfinished                 shows what the next owner has to repair
//	after DURATION             time passes
//	elsewhere                  a new owner begins, and another process has code that this one lacks
//	missing ID                 the outstanding request of the instance for that code, or for a turn, is not answered
//	joined                     a process with more code has joined
//	show ID                    shows the phase, the inputs in memory and pending work
func TestInteractionsPlayAsRecorded(t *testing.T) {
	scenario.Run(t, "testdata/interactions/*.txt", 1, func(t *testing.T, text string) string { return newInteraction(t).play(text) })
}

const seal = ".seal" // seal of the elements that the owner creates

// interaction is an owner and the store that it writes to.
type interaction struct {
	t       *testing.T
	cfg     core.Config
	owner   *core.Owner
	now     time.Time
	seq     uint64
	tenures int
	stores
	outstanding map[string]core.Effect
	publishing  []core.Effect
	leases      record.LeaseStatus // status that reconciliations find
	limits
	resident
	carried  map[string]core.Message // answers that have not been delivered yet
	accepted int64                   // time at which the stream accepted the next input, Unix ns; 0: the time of its ingest
}

// stores is the current and the saved content of the store, each with its number of commits.
type stores struct {
	stored, saved       map[string]*stored
	number, savedNumber int64
}

// resident is the memory of the processes.
type resident struct {
	code   map[string]turn.Code
	guests map[string]*fold.State // instances whose code is in another process
}

// limits are the limits that the owner has called.
type limits struct {
	members map[string]limit.Member
	queued  []core.Effect // calls of limits and reads of task queues, in order
}

func newInteraction(t *testing.T) *interaction {
	programs, err := interactionPrograms()
	if err != nil {
		t.Fatal(err)
	}
	x := &interaction{
		t: t, now: time.UnixMilli(1_800_000_000_000), stores: stores{stored: make(map[string]*stored)}, outstanding: make(map[string]core.Effect), resident: resident{code: make(map[string]turn.Code), guests: make(map[string]*fold.State)},
		leases: record.LeaseClaimed, limits: limits{members: make(map[string]limit.Member)}, carried: make(map[string]core.Message),
	}
	x.cfg = core.Config{ReconcileInterval: 10 * time.Second, MaxClaims: 10, Parked: 100, Programs: programs}
	x.crash()
	t.Cleanup(x.crash)
	return x
}

// crash replaces the owner with one without state.
func (x *interaction) crash() {
	for _, code := range x.code {
		_ = code.Exec.Evict()
	}
	clear(x.code)
	clear(x.guests)
	clear(x.outstanding)
	clear(x.carried)
	x.queued, x.publishing = nil, nil
	heads := string(rune('h' + x.tenures))
	x.tenures++
	x.owner = core.New(x.cfg, core.TenureStart{Seal: seal, Heads: heads, Commits: x.number, Applied: history.Position{Seq: x.seq, Time: x.now.UnixNano()}}, x.now)
}

// play returns the text with the effects of its commands.
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
		return x.start(id, args[2], how)
	case "import":
		if args[2] == "newer" {
			return x.ingest(x.importOfNewer(id), how)
		}
		return x.ingest(x.importOf(id, args[2] == "completed"), how)
	case "event":
		return x.ingest(message.Input{Instance: id, Kind: message.KindEvent, Name: args[2], Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}}, how)
	case "events":
		return x.fill(id, args[2], how)
	case "complete":
		return x.complete(id, args[2], how)
	case "due":
		return x.step(core.Message{Kind: core.DueRead, Body: record.DueSet{Now: x.now.UnixMilli(), Instances: []string{id}}})
	case "update":
		return x.ingest(message.Input{Instance: id, Kind: message.KindUpdate, Name: args[2], ID: how, Reply: "reply", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}}, "")
	case "requeue":
		return x.step(core.Message{Kind: core.RetryRequested, ID: id})
	case "purge":
		return x.ingest(message.Input{Instance: id, Kind: message.KindPurge, Force: true}, how)
	case "elsewhere":
		x.cfg.Elsewhere = true
		x.crash()
		return nil
	case "joined":
		return x.step(core.Message{Kind: core.CodeJoined})
	case "carried":
		x.carried[id] = x.execute(id, "ok")
		return nil
	case "ok", "lost", "fail", "conflict", "missing":
		return x.answer(id, args[0])
	case "after":
		d, err := time.ParseDuration(id)
		if err != nil {
			x.t.Fatal(err)
		}
		x.now = x.now.Add(d)
		return x.elapsed(d)
	case "cancel":
		in := message.Input{Instance: id, Kind: message.KindCancel, By: "ops"}
		if of, ok := strings.CutPrefix(args[len(args)-1], "of="); ok {
			in.By, in.Of, in.Name = "", of, "p"
		}
		return x.ingest(in, how)
	case "pause", "resume", "terminate", "retry", "rewind":
		return x.operate(args)
	case "block":
		delete(x.outstanding, id)
		delete(x.code, id)
		return x.step(core.Message{Kind: core.TurnBlocked, ID: id})
	case "leases":
		x.leases = leaseStatuses[args[2]]
		defer func() { x.leases = record.LeaseClaimed }()
		return x.answer(id, "ok")
	case "published", "unpublished":
		m := core.Message{Kind: core.TaskPublished, ID: id, Event: x.eventID(args[2])}
		if args[0] == "unpublished" {
			m.Err = context.DeadlineExceeded
		}
		return x.step(m)
	case "sent":
		return x.published(id, nil, args[2:]...)
	case "unsent":
		return x.published(id, message.ErrNoStream)
	case "horizon":
		return x.horizon(id == "more")
	case "limit", "queue":
		return x.dequeue(args[0], id)
	case "granted":
		return x.granted(id, x.eventID(args[2]))
	case "tasks-lost":
		return x.step(core.Message{Kind: core.TasksLost, Body: x.now})
	case "scheduled":
		return x.step(core.Message{Kind: core.ScheduleRead, Body: args[1:]})
	case "tenure":
		found := &core.Takeover{Now: x.now.UnixMilli(), Clean: args[1] == "clean", Due: args[2:], Policies: &limit.Overrides{}}
		return x.step(core.Message{Kind: core.TenureBegan, Body: found})
	case "crash":
		x.crash()
		return nil
	case "save", "rollback":
		return x.rollBack(args[0] == "save")
	case "hand-over":
		return x.step(core.Message{Kind: core.HandoverBegan})
	case "unfinished":
		return []string{fmt.Sprint(x.owner.Unfinished())}
	case "show":
		return []string{x.owner.Describe(id)}
	default:
		x.t.Fatalf("unknown command %q", args)
		return nil
	}
}

// start ingests a start.
func (x *interaction) start(id, name, how string) []string {
	in := message.Input{Instance: id, Kind: message.KindStart, Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}}
	if effect, ok := strings.CutPrefix(how, "of="); ok {
		in.Parent, how = &history.Parent{Instance: "p", Event: 2, Effect: effect}, ""
	}
	if how == "restart" {
		in.Reuse, how = history.ReuseTerminate, ""
	}
	if option, value, ok := strings.Cut(how, "="); ok {
		d, err := time.ParseDuration(value)
		if err != nil {
			x.t.Fatal(err)
		}
		if how = ""; option == "at" {
			in.StartAt = x.now.Add(d).UnixMilli()
		} else {
			in.Timeout = d
		}
	}
	return x.ingest(in, how)
}

// operate ingests a request of an operator.
func (x *interaction) operate(args []string) []string {
	in := message.Input{Instance: args[1], Kind: message.KindOperate, Name: args[0], By: "ops", Reply: "reply"}
	if len(args) > 2 && args[0] == "rewind" {
		in.Operate.To = x.eventID(args[2])
	}
	if len(args) > 2 && args[0] == "terminate" {
		in.Of = strings.TrimPrefix(args[2], "of=")
	}
	in.Operate.Stop = len(args) > 2 && args[0] == "pause"
	return x.ingest(in, "")
}

// step sends the owner a message and returns the effects.
func (x *interaction) step(m core.Message) (out []string) {
	effects := x.owner.Step(x.now, &m)
	if err := x.owner.Err(); err != nil {
		return []string{"the tenure ends: " + err.Error()}
	}
	for _, e := range effects {
		switch e.Kind {
		case core.EvictCode:
			if code, ok := x.code[e.ID]; ok && !code.Exec.Ended() {
				_ = code.Exec.Evict()
			}
			delete(x.code, e.ID)
			delete(x.guests, e.ID)
			continue
		case core.ReadHorizon:
			if e.After > 0 {
				out = append(out, fmt.Sprintf("%s in %v", &e, e.After))
			}
			continue
		case core.CountLimit:
			continue
		case core.PublishMessage:
			x.publishing = append(x.publishing, e)
		case core.CallLimit, core.ReadQueueAge:
			x.queued = append(x.queued, e)
		case core.PostLater:
			x.outstanding["later"] = e
		default:
		}
		if e.Kind <= core.RewindInstance || e.Kind == core.RunTurn || e.Kind == core.FindCode {
			x.outstanding[e.ID] = e
		}
		text := e.String()
		if e.Kind == core.ReconcileWith {
			text += ", next " + x.wakeup(e.Recon.Wakeup)
		}
		if e.Kind == core.CommitTurn && len(e.Commit.Delete) > 0 {
			text += fmt.Sprintf(", %d leases deleted", len(e.Commit.Delete))
		}
		if w, ok := e.Body.(*record.Rewind); ok && len(w.Release) > 0 {
			text += fmt.Sprintf(", %d slots released, %d retained", len(w.Release), len(w.Retain))
		}
		if e.Kind == core.CommitTurn && len(e.Commit.Answers) > 0 {
			text += fmt.Sprintf(", %d answers", len(e.Commit.Answers))
		}
		out = append(out, text)
	}
	return out
}

func (x *interaction) wakeup(at int64) string {
	if at == 0 {
		return "never"
	}
	return fmt.Sprintf("in %v", time.UnixMilli(at).Sub(x.now))
}

// elapsed posts the delayed message if it is due.
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

func (x *interaction) ingest(in message.Input, how string) []string {
	x.seq++
	in.Pos, x.accepted = history.Position{Seq: x.seq, Time: cmp.Or(x.accepted, x.now.UnixNano())}, 0
	arrivals, err := core.Arrivals(nil, in, seal)
	if err != nil {
		x.t.Fatal(err)
	}
	s := x.of(in.Instance)
	begun := s.rec != nil || len(s.inbox) > 0 && s.inbox[0][0] == '!'
	if s.inbox = append(s.inbox, arrivals[0].Msg.Element); in.Kind == message.KindStart && !begun { // a start precedes all other inputs
		s.inbox = append(s.inbox[len(s.inbox)-1:], s.inbox[:len(s.inbox)-1]...)
	}
	b := &core.Ingested{Now: x.now.UnixMilli(), To: in.Pos, Arrivals: arrivals, Results: []record.Ingested{{Exists: s.rec != nil, Unread: len(s.inbox)}}}
	if how == "unseen" {
		b.Results = nil
	}
	return x.step(core.Message{Kind: core.InputsIngested, Body: b})
}

// fill puts events into an inbox that a previous owner ingested.
func (x *interaction) fill(id, name, count string) []string {
	for range x.eventID(count) {
		x.seq++
		in := message.Input{Instance: id, Kind: message.KindEvent, Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}, Pos: history.Position{Seq: x.seq, Time: x.now.UnixNano()}}
		arrivals, err := core.Arrivals(nil, in, seal)
		if err != nil {
			x.t.Fatal(err)
		}
		x.of(id).inbox = append(x.of(id).inbox, arrivals[0].Msg.Element)
	}
	return nil
}

func (x *interaction) complete(id, number, how string) []string {
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
	var end history.Event = &history.ActivityCompleted{Scheduled: n, Result: history.Payload{Type: history.TypeJSON, Data: []byte(`"y"`)}}
	if how == "failed" || how == "retryable" {
		end = &history.ActivityFailed{Scheduled: n, Failure: history.Failure{Message: "broken", Permanent: how == "failed"}}
	}
	body, err := eventcodec.Encode(end)
	if err != nil {
		x.t.Fatal(err)
	}
	el := eventcodec.Element{ID: "a" + effect + ".1", At: x.now.UnixMilli(), Body: body}.Encode()
	s.inbox = append(s.inbox, el)
	if how == "silent" {
		return nil
	}
	return x.step(core.Message{Kind: core.DoorbellsReceived, Doorbells: []message.Doorbell{{Instance: id, Effect: effect, Element: el}}})
}

// horizon reports the end of the stream.
func (x *interaction) horizon(more bool) []string {
	got := message.Accepted{At: x.now}
	if more {
		x.accepted = cmp.Or(x.accepted, x.now.UnixNano())
		got.Last = history.Position{Seq: x.seq + 1, Time: x.accepted}
	}
	return x.step(core.Message{Kind: core.HorizonAnswered, Body: got})
}

// answer executes the outstanding request of an instance, unless that has been done, and posts the answer.
func (x *interaction) answer(id, how string) []string {
	m, ok := x.carried[id]
	if delete(x.carried, id); !ok {
		m = x.execute(id, how)
	}
	return x.step(m)
}

// execute executes the outstanding request of an instance as how requires, and returns the answer.
func (x *interaction) execute(id, how string) core.Message {
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
	case core.FindCode:
		m.Kind, m.Body = core.CodeFound, x.findCode(e.Body.(core.CodeName), how)
	case core.RunTurn:
		if m.Kind = core.TurnDone; e.Given.Program != nil {
			m.Decided = x.turn(id, e.Given)
		} else {
			m.Decided = x.turnElsewhere(id, e.Given, how)
		}
	case core.LoadInstance:
		m.Kind, m.Body = core.InstanceLoaded, s.load()
	case core.ReadInbox, core.SearchInbox:
		m.Kind, m.Body = core.InboxRead, s.inbox
	case core.FetchHead:
		m.Kind, m.Body = core.HeadRead, s.head()
	case core.ReadHistory:
		m.Kind, m.Body = core.HistoryRead, s.source(x.t)
	case core.RewindInstance:
		m.Kind = core.RewindAnswered
		if written {
			m.Committed, m.Err = x.rewind(s, e.Body.(*record.Rewind))
		}
	case core.CommitTurn:
		m.Kind = core.CommitAnswered
		if written {
			m.Committed, m.Err = x.commit(s, e.Commit)
		}
	case core.ReconcileWith:
		m.Kind, m.Reconciled = core.Reconciled, record.Reconciled{Now: x.now.UnixMilli(), Unread: len(s.inbox)}
		for _, l := range e.Recon.Leases {
			m.Reconciled.Leases = append(m.Reconciled.Leases, record.LeaseState{Lease: l, Status: x.leases, Until: x.now.UnixMilli() + 10_000})
		}
		if written && s.rec != nil && s.rec.Published.Before(e.Recon.Published) {
			s.rec.Published = e.Recon.Published
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
		m.Err = record.ErrConflict
	}
	return m
}

// published answers the publishes of an instance.
func (x *interaction) published(id string, err error, to ...string) (out []string) {
	all := x.publishing
	x.publishing = nil
	for _, e := range all {
		if e.ID != id || len(to) > 0 && e.Input.Instance != to[0] {
			x.publishing = append(x.publishing, e)
			continue
		}
		out = append(out, x.step(core.Message{Kind: core.MessagePublished, Number: e.Number, Err: err})...)
	}
	return out
}

var leaseStatuses = map[string]record.LeaseStatus{
	"unclaimed": record.LeaseUnclaimed, "expired": record.ClaimExpired, "exhausted": record.ClaimsExhausted, "missing": record.LeaseMissing,
}

func (x *interaction) eventID(number string) uint64 {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		x.t.Fatal(err)
	}
	return n
}

// dequeue answers the oldest call of a limit or read of a task queue.
func (x *interaction) dequeue(what, how string) []string {
	kind := map[string]core.EffectKind{"limit": core.CallLimit, "queue": core.ReadQueueAge}[what]
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
		m.Kind, m.Admitted.Now = core.LimitAnswered, x.now.UnixMilli()
		outcome := map[string]limit.Kind{"admitted": limit.Admitted, "waiting": limit.Waiting, "limited": limit.Limited}[how]
		for range e.Call.Enter {
			m.Admitted.Verdicts = append(m.Admitted.Verdicts, limit.Verdict{Kind: outcome})
		}
		for _, entry := range e.Call.Enter {
			x.members[entry.Member.Instance] = entry.Member
		}
	}
	return x.step(m)
}

// granted reports a grant to an instance, as the owner of the limit does.
func (x *interaction) granted(id string, _ uint64) []string {
	n := core.LimitNotice{Limit: "limited", Member: x.members[id], Kind: limit.Admitted, At: x.now.UnixMilli()}
	return x.step(core.Message{Kind: core.NoticesPassed, Body: []core.LimitNotice{n}})
}

// turn runs the code.
func (x *interaction) turn(id string, g *core.Given) *core.Decided {
	code := x.code[id]
	if s := x.of(id); !g.Resident && len(g.Events) != len(s.events) {
		x.t.Fatalf("a turn of %s replays %d of %d events", id, len(g.Events), len(s.events))
	}
	if !g.Resident {
		var err error
		if code, err = turn.Replay(g, replay.New(g.Identity, g.Program, replay.Options{})); err != nil {
			x.t.Fatal(err)
		}
	}
	x.code[id] = code
	return turn.Decide(g, code)
}
