package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Turns of instances whose code other members have; package pool has their states. The goroutine of the partition keeps what follows from
// a turn (guests, asked); encoding, decoding and folding are work of the turner.

const (
	memberGrace    = 2 * time.Second // longer than the limit of a turn its owner waits for a sign of the member that decides it
	memberSearches = 2               // for the member of a turn

	firstBusyPause = 50 * time.Millisecond // before a member is looked for again because one is busy; each is twice the one before
	maxBusyPause   = 2 * time.Second
	busyPauses     = 10 // for one turn: about 12 s
)

// guest is an instance whose code another member has.
type guest struct {
	state   *history.State // that the code has come to
	at      string         // the member of its latest turn
	after   string         // the turn behind which the member may have the code; empty: it has to replay
	awaited replay.Awaited // what the code waits for
}

// guestTurn is a turn of a guest. One goroutine after the other has it.
type guestTurn struct {
	guest

	shell    *shell
	instance string
	given    *core.Given
	id       string
	searches int // for a member
	pauses   int // because members were busy
	decided  *core.Decided
	blocked  bool
}

// askMember has another member decide a turn.
func (s *shell) askMember(id string, g *core.Given) {
	t := &guestTurn{shell: s, instance: id, given: g, id: s.process.caller.ID()}
	if g.Resident {
		t.guest = s.guests[id]
	}
	delete(s.guests, id)
	s.asked[id] = t
	if t.at != "" {
		s.turns.do(&guestStep{turn: t, step: t.send})
	} else {
		t.find()
	}
}

// answered takes a turn back that another member has decided. It reports false if nothing waits for it any more.
func (s *shell) answered(t *guestTurn) bool {
	if s.asked[t.instance] != t {
		return false
	}
	delete(s.asked, t.instance)
	delete(s.failed, t.instance)
	if d := t.decided; d != nil && d.Missing == "" {
		s.guests[t.instance] = t.guest
		if d.Err != nil {
			s.failed[t.instance] = true
		}
	}
	return true
}

// forgetGuest forgets what follows from the turns of a guest. The member drops its code by itself.
func forgetGuest(s *shell, id string) {
	delete(s.guests, id)
	delete(s.asked, id)
}

// noteLimits notes, before a commit, that the owner has written limits into events: the code that the member has in memory lacks them.
func noteLimits(s *shell, id string, d *core.Decided) {
	if g, ok := s.guests[id]; ok && noted(d.Events) {
		g.after = ""
		s.guests[id] = g
	}
}

func noted(events []history.Event) bool {
	for _, ev := range events {
		if a, ok := ev.(*history.ActivityScheduled); ok && a.Limit != nil {
			return true
		}
	}
	return false
}

// findMember looks for a member that has an orchestration, once more if none answers.
func findMember(s *Process, name, version string, newest bool, done func(pool.Found, error)) {
	s.caller.Find(name, version, newest, pool.FindTime, func(f pool.Found, err error) {
		if errors.Is(err, pool.ErrUnanswered) {
			s.caller.Find(name, version, newest, pool.FindTime, done)
			return
		}
		done(f, err)
	})
}

// find looks for a member that has the code.
func (t *guestTurn) find() {
	t.searches++
	g := t.given
	findMember(t.shell.process, g.Name, g.Place.Version, g.Place.Length == 0 && g.Place.Version == "", func(f pool.Found, err error) {
		if err != nil {
			t.missing(missing(g.Name, g.Place.Version, err))
			return
		}
		if t.at != f.At {
			t.at, t.after = f.At, ""
		}
		t.shell.turns.do(&guestStep{turn: t, step: t.send})
	})
}

// send sends the turn to the member.
func (t *guestTurn) send() {
	s := t.shell
	r := pool.Request{Turn: &pool.Turn{Partition: s.st.Part, ID: t.id, After: t.after, Given: *t.given}}
	s.process.caller.Send(t.at, r.Encode(t.given.Seal), s.process.cfg.TurnLimit+memberGrace, func(b []byte, err error) {
		switch {
		case err == nil:
			s.turns.do(&guestStep{turn: t, step: func() { t.take(b) }})
		case errors.Is(err, pool.ErrTooLarge):
			t.missing("the inputs of one turn are too large for another orchestrator, and the one that owns the instance does not have its code: " + err.Error())
		default:
			t.again(missing(t.given.Name, t.given.Place.Version, err))
		}
	})
}

// again looks for another member after one that did not decide the turn, a bounded number of times: such a fault may pass.
func (t *guestTurn) again(why string) {
	if t.searches < memberSearches {
		t.find()
	} else {
		t.missing(why)
	}
}

// take makes the decision of an answer.
func (t *guestTurn) take(b []byte) {
	a, err := pool.DecodeAnswer(b)
	if err == nil && t.state == nil {
		t.state, err = core.FoldOf(t.given.Events)
	}
	switch {
	case err != nil:
		t.end(&core.Decided{Err: err})
	case a.Blocked:
		t.blocked = true
		t.end(nil)
	case a.Busy && t.pauses < busyPauses:
		pause := min(firstBusyPause<<t.pauses, maxBusyPause)
		t.pauses++
		t.searches = 0
		t.shell.process.caller.After(pause, t.find)
	case a.Missing != "":
		t.again(a.Missing)
	default:
		d := a.Decided(t.given, t.state)
		if t.after, t.awaited = t.id, a.Awaited; noted(d.Events) { // as declared; the owner replaces it
			t.after = ""
		}
		t.end(d)
	}
}

func (t *guestTurn) missing(why string) { t.end(&core.Decided{Missing: why}) }

// missing describes why code was not found.
func missing(name, version string, err error) string {
	what := fmt.Sprintf("orchestration %q", name)
	if version != "" {
		what += fmt.Sprintf(", version %q,", version)
	}
	if errors.Is(err, pool.ErrNobody) {
		return "no " + what + " is registered in any orchestrator; start one that has it"
	}
	return what + " is not registered in the orchestrator that owns the instance, and the one that has it has not answered: " + err.Error()
}

// end hands the turn to the owner.
func (t *guestTurn) end(d *core.Decided) {
	failpoint.Here("orchestrator.turned")
	t.decided = d
	m := core.Message{Kind: core.TurnDone, ID: t.instance, Decided: d}
	if t.blocked {
		m.Kind = core.TurnBlocked
	}
	t.shell.box.post(mail{Message: m, guest: t})
}

// guestStep is a step of a turn as a job.
type guestStep struct {
	turn *guestTurn
	step func()
}

func (g *guestStep) work()    { g.step() }
func (g *guestStep) done()    {}
func (g *guestStep) blocked() {} // it computes: it comes back
func (g *guestStep) late()    {}

// findCode looks for the orchestration of a start.
func findCode(s *shell, id string, n core.CodeName) {
	findMember(s.process, n.Name, n.Version, n.Version == "", func(f pool.Found, err error) {
		c := &core.FoundCode{Version: f.Version, Declared: f.Declared}
		if err != nil {
			c = &core.FoundCode{Missing: missing(n.Name, n.Version, err)}
		}
		s.post(core.Message{Kind: core.CodeFound, ID: id, Body: c})
	})
}
