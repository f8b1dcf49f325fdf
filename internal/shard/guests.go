package shard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Turns of instances whose code only other members have. Package pool describes their states. The goroutine of the partition holds the results of
// turns (guests, remoteTurns); the turner encodes, decodes and folds.

const (
	memberGrace       = 2 * time.Second // beyond the limit of a turn, how long its owner waits for a message of the member that decides it
	maxMemberSearches = 2               // for one turn, without a busy member in between

	firstBusyPause = 50 * time.Millisecond // before the next search after a member was busy; the pause doubles each time
	maxBusyPause   = 2 * time.Second
	maxBusyPauses  = 10 // for one turn: about 12 s
)

// guest is an instance whose code another member has.
type guest struct {
	state   *fold.State    // after the latest turn
	at      string         // subject of the member that decided the latest turn
	after   string         // id of the turn after which the member may still have the code; empty: it must replay
	awaited replay.Awaited // what the code waits for
}

// guestTurn is a turn of a guest. Only one goroutine uses it at a time.
type guestTurn struct {
	guest

	shell    *shell
	instance string
	given    *core.Given
	id       string
	searches int // for a member, since one was busy
	pauses   int // because members were busy
	decided  *core.Decided
	blocked  bool
}

// runOnMember has another member decide a turn.
func (s *shell) runOnMember(id string, g *core.Given) {
	t := &guestTurn{shell: s, instance: id, given: g, id: s.process.caller.ID()}
	if g.Resident {
		t.guest = s.guests[id]
	}
	delete(s.guests, id)
	s.remoteTurns[id] = t
	if t.at != "" {
		s.turns.do(&guestStep{turn: t, step: t.send})
	} else {
		t.find()
	}
}

// guestDone records a turn that another member has decided. It returns false if the turn was evicted meanwhile: its decision is dropped.
func (s *shell) guestDone(t *guestTurn) bool {
	if s.remoteTurns[t.instance] != t {
		return false
	}
	delete(s.remoteTurns, t.instance)
	delete(s.failed, t.instance)
	if d := t.decided; d != nil && d.Missing == "" {
		s.guests[t.instance] = t.guest
		if d.Err != nil {
			s.failed[t.instance] = true
		}
	}
	return true
}

// checkLimits runs before the commit of a turn. If the owner has written limits into its events, the code that the member has in memory lacks
// them, and the next turn must replay.
func checkLimits(s *shell, id string, d *core.Decided) {
	if g, ok := s.guests[id]; ok && hasLimits(d.Events) {
		g.after = ""
		s.guests[id] = g
	}
}

func hasLimits(events []history.Event) bool {
	return slices.ContainsFunc(events, func(ev history.Event) bool {
		a, ok := ev.(*history.ActivityScheduled)
		return ok && a.Limit != nil
	})
}

// findMember searches for a member that has an orchestration, and once more if no answer arrives.
func findMember(s *Process, name, version string, newest bool, done func(pool.Found, error)) {
	s.caller.Find(name, version, newest, pool.FindTime, func(f pool.Found, err error) {
		if errors.Is(err, pool.ErrUnanswered) {
			s.caller.Find(name, version, newest, pool.FindTime, done)
			return
		}
		done(f, err)
	})
}

// find searches for a member that has the code.
func (t *guestTurn) find() {
	t.searches++
	g := t.given
	findMember(t.shell.process, g.Name, g.Place.Version, g.Place.Length == 0 && g.Place.Version == "", func(f pool.Found, err error) {
		if err != nil {
			t.endMissing(missing(g.Name, g.Place.Version, err))
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
			s.turns.do(&guestStep{turn: t, step: func() { t.received(b) }})
		case errors.Is(err, pool.ErrTooLarge):
			t.endMissing("the inputs of one turn are too large for another orchestrator, and the one that owns the instance does not have its code: " + err.Error())
		default:
			t.retry(missing(t.given.Name, t.given.Place.Version, err))
		}
	})
}

// retry searches again after a member did not decide the turn, at most maxMemberSearches times.
func (t *guestTurn) retry(problem string) {
	if t.searches < maxMemberSearches {
		t.find()
	} else {
		t.endMissing(problem)
	}
}

// received ends the turn with the decision in an answer, or searches for another member.
func (t *guestTurn) received(b []byte) {
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
	case a.Busy && t.pauses < maxBusyPauses:
		pause := min(firstBusyPause<<t.pauses, maxBusyPause)
		t.pauses++
		t.searches = 0
		t.shell.process.caller.After(pause, t.find)
	case a.Missing != "":
		t.retry(a.Missing)
	default:
		d := a.Decided(t.given, t.state)
		if t.after, t.awaited = t.id, a.Awaited; hasLimits(d.Events) { // the declared ones; the owner replaces them
			t.after = ""
		}
		t.end(d)
	}
}

func (t *guestTurn) endMissing(problem string) { t.end(&core.Decided{Missing: problem}) }

// missing returns the message for code that was not found.
func missing(name, version string, err error) string {
	what := fmt.Sprintf("orchestration %q", name)
	if version != "" {
		what += fmt.Sprintf(", version %q,", version)
	}
	if errors.Is(err, pool.ErrNoMember) {
		return "no " + what + " is registered in any orchestrator; start one that has it"
	}
	return what + " is not registered in the orchestrator that owns the instance, and the one that has it has not answered: " + err.Error()
}

// end sends the decided turn to the owner; nil: it has blocked.
func (t *guestTurn) end(d *core.Decided) {
	failpoint.Here("orchestrator.turned")
	t.decided = d
	m := core.Message{Kind: core.TurnDone, ID: t.instance, Decided: d}
	if t.blocked {
		m.Kind = core.TurnBlocked
	}
	t.shell.box.post(mail{Message: m, guest: t})
}

// guestStep is one step of a guest's turn as a job.
type guestStep struct {
	turn *guestTurn
	step func()
}

func (g *guestStep) work()    { g.step() }
func (g *guestStep) done()    {}
func (g *guestStep) blocked() {} // a step only computes, and returns
func (g *guestStep) late()    {}

// findCode searches the other members for the orchestration of a start.
func findCode(s *shell, id string, n core.CodeName) {
	findMember(s.process, n.Name, n.Version, n.Version == "", func(f pool.Found, err error) {
		c := &core.FoundCode{Version: f.Version, Declared: f.Declared}
		if err != nil {
			c = &core.FoundCode{Missing: missing(n.Name, n.Version, err)}
		}
		s.post(core.Message{Kind: core.CodeFound, ID: id, Body: c})
	})
}
