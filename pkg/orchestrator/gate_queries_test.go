package orchestrator_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

// crowd puts members of nobody at a gate, which lets one in in an hour.
func (s *stand) crowd(name string, n int) {
	s.t.Helper()
	one := history.Policy{Rate: 1, RateWindow: time.Hour.Milliseconds()}
	if r := s.askGate(0, queue.Ask{Op: queue.OpSetPolicy, Level: "global", Policy: &one}); r.Problem != nil {
		s.t.Fatal(r.Problem)
	}
	set, err := s.gates().Overrides(s.ctx())
	if err != nil {
		s.t.Fatal(err)
	}
	c := limiter.AdmitRequest{Limit: name}
	c.InForce, _ = set.Resolve(limiter.Action(name), history.Declared{}, nil)
	c.InForce.Version++ // as orchestrators do
	for i := range n {
		place := limiter.ActivityPlace(1, uint64(i+2))
		switch i % 3 {
		case 1:
			place = limiter.RetainedPlace
		case 2:
			place = limiter.StartPlace(history.Position{Seq: 7, Time: 8})
		}
		c.Enter = append(c.Enter, limiter.Entry{Member: limiter.Member{Ticket: fmt.Sprintf("%s-%05d", strings.ReplaceAll(name, "/", "-"), i), Instance: fmt.Sprintf("nobody-%d", i), Place: place}})
	}
	done := make(chan error, 1)
	s.gates().Admit(c, func(_ limiter.AdmitReply, err error) { done <- err })
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) askGate(part int, q queue.Ask) queue.Reply {
	s.t.Helper()
	var r queue.Reply
	s.until("an owner answers", func() bool {
		var err error
		r, err = s.conn.Ask(s.ctx(), part, q)
		return err == nil && (r.Problem == nil || r.Problem.Code != queue.ProblemNotOwner)
	})
	return r
}

func TestWhoWaitsIsToldPageByPageInOrderByWhoeverIsAsked(t *testing.T) {
	s := newStand(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	s.crowd("bulk", 1201)
	for _, limit := range []int{0, 7, 1000} {
		want := uint64(1)
		for q := (queue.Ask{Op: queue.OpWaiters, Gate: "bulk", Limit: limit}); ; {
			r := s.askGate(int(want)%8, q)
			if r.Problem != nil || len(r.Waiters) > 500 {
				t.Fatalf("%d rows, %+v", len(r.Waiters), r.Problem)
			}
			for _, w := range r.Waiters {
				i := want // the first of all is in
				execution, event := uint64(1), i+2
				switch i % 3 {
				case 1:
					execution, event = 0, 0
				case 2:
					event = 1
				}
				if w.Position != want || w.Instance != fmt.Sprint("nobody-", i) || w.Execution != execution || w.Event != event || w.Since == 0 {
					t.Fatalf("%d: %+v", want, w)
				}
				want++
			}
			if q.Cursor = r.Cursor; q.Cursor == "" {
				break
			}
		}
		if want != 1201 {
			t.Errorf("limit %d: %d waiters", limit, want-1)
		}
	}
	if r := s.askGate(3, queue.Ask{Op: queue.OpClear, Gate: "bulk"}); r.Cleared != 1200 || r.Problem != nil {
		t.Errorf("%+v", r)
	}
	if r := s.askGate(4, queue.Ask{Op: queue.OpWaiters, Gate: "bulk"}); len(r.Waiters) != 0 || r.Problem != nil {
		t.Errorf("%+v", r)
	}
	if r := s.askGate(5, queue.Ask{Op: queue.OpGate, Gate: "bulk"}); len(r.Gates) != 1 || r.Gates[0].Cleared != 1200 || r.Gates[0].Waiting != 0 {
		t.Errorf("%+v", r)
	}
}

func TestEveryGateIsListedOnceByTheOwnerOfItsPartition(t *testing.T) {
	s := newStand(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	want := make(map[string]bool)
	for i := range 60 {
		want[limiter.Name("many", fmt.Sprintf("key %d", i))] = true
	}
	for name := range want {
		s.crowd(name, 2)
	}
	s.crowd("other", 1)
	for _, limit := range []int{0, 3} {
		seen := make(map[string]bool)
		for p := range 8 {
			for q := (queue.Ask{Op: queue.OpGates, Gate: "many", Limit: limit}); ; {
				r := s.askGate(p, q)
				for _, g := range r.Gates {
					if seen[g.Gate] || g.Action != "many" || g.Waiting != 1 || g.Entered != 2 || s.conn.PartitionOf(g.Gate) != p || limit > 0 && len(r.Gates) > limit {
						t.Fatalf("%+v in partition %d", g, p)
					}
					seen[g.Gate] = true
				}
				if q.Cursor = r.Cursor; q.Cursor == "" {
					break
				}
			}
		}
		if !maps.Equal(seen, want) {
			t.Errorf("limit %d: %d of %d", limit, len(seen), len(want))
		}
	}
	if r := s.askGate(s.conn.PartitionOf("other"), queue.Ask{Op: queue.OpGates}); !slices.ContainsFunc(r.Gates, func(g queue.GateStats) bool { return g.Gate == "other" }) {
		t.Errorf("%+v", r)
	}
	// A key that can not stand in a name is found as it is, and as listings show it.
	shown := limiter.Key(limiter.Name("many", "key 7"))
	for _, key := range []string{"key 7", shown} {
		if r := s.askGate(0, queue.Ask{Op: queue.OpGate, Gate: "many", Key: key}); len(r.Gates) != 1 || r.Gates[0].Key != shown {
			t.Errorf("%s: %+v", key, r)
		}
	}
	if r := s.askGate(0, queue.Ask{Op: queue.OpGate, Gate: "many", Key: "x} y~" + strings.Repeat("a", 22)}); r.Problem == nil || r.Problem.Code != queue.ProblemNotFound {
		t.Errorf("%+v", r)
	}
}

func TestAnIdleGateIsShownWithThePolicyThatIsInForce(t *testing.T) {
	s, stile := newStand(t), newTurnstile()
	busy := pawl.NewActivity[string, string]("busy", pawl.Rate(1, time.Hour))
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, who string) (string, error) { return busy.Call(ctx, who) }))
	s.work(worker.Config{}, busy.Do(stile.do))
	close(stile.end)
	s.start("hello", "h-0", `"h-0"`)
	s.ended("h-0")
	s.quiet("busy")
	part := s.conn.PartitionOf("busy")
	s.until("nobody visits the gate any more", func() bool {
		return len(s.askGate(part, queue.Ask{Op: queue.OpGates, Gate: "busy"}).Gates) == 0
	})
	shown := func() queue.GateStats {
		t.Helper()
		r := s.askGate(part, queue.Ask{Op: queue.OpGate, Gate: "busy"})
		if r.Problem != nil || len(r.Gates) != 1 {
			t.Fatalf("%+v", r)
		}
		return r.Gates[0]
	}
	if g := shown(); g.Policy.Rate != 1 || g.LimitedUntil == 0 {
		t.Errorf("by its code: %+v", g)
	}
	if r := s.askGate(part, queue.Ask{Op: queue.OpSetPolicy, Level: "action:busy", Policy: &history.Policy{Concurrency: 7, Key: "who"}}); r.Problem != nil {
		t.Fatal(r.Problem)
	}
	if g := shown(); g.Policy != (history.Policy{Concurrency: 7, Key: "who"}) || g.MaxConcurrent != 7 || g.LimitedUntil != 0 || g.Completed != 1 {
		t.Errorf("set at run time: %+v", g)
	}
	if r := s.askGate(part, queue.Ask{Op: queue.OpDeletePolicy, Level: "action:busy"}); r.Problem != nil {
		t.Fatal(r.Problem)
	}
	if g := shown(); g.Policy.Rate != 1 || g.LimitedUntil == 0 {
		t.Errorf("by its code again: %+v", g)
	}
}

func TestAskingAboutGatesAndPoliciesWhatMakesNoSenseIsAProblem(t *testing.T) {
	s := newStand(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	s.crowd("bulk", 1)
	for _, k := range []struct {
		q    queue.Ask
		code string
	}{
		{queue.Ask{Op: queue.OpGate, Gate: "a b"}, queue.ProblemBadAsk},
		{queue.Ask{Op: queue.OpGate}, queue.ProblemBadAsk},
		{queue.Ask{Op: queue.OpGate, Gate: "unknown"}, queue.ProblemNotFound},
		{queue.Ask{Op: queue.OpGate, Gate: "bulk", Key: "k"}, queue.ProblemNotFound},
		{queue.Ask{Op: queue.OpWaiters, Gate: "unknown"}, queue.ProblemNotFound},
		{queue.Ask{Op: queue.OpWaiters, Gate: "bulk", Cursor: "x"}, queue.ProblemBadAsk},
		{queue.Ask{Op: queue.OpWaiters, Gate: "bulk", Cursor: "-1"}, queue.ProblemBadAsk},
		{queue.Ask{Op: queue.OpClear, Gate: "unknown"}, queue.ProblemNotFound},
		{queue.Ask{Op: queue.OpSetPolicy, Level: "global"}, queue.ProblemBadAsk},
		{queue.Ask{Op: queue.OpSetPolicy, Level: "team:x", Policy: &history.Policy{}}, queue.ProblemRefused},
		{queue.Ask{Op: queue.OpSetPolicy, Level: "global", Policy: &history.Policy{Rate: 1}}, queue.ProblemRefused},
		{queue.Ask{Op: queue.OpDeletePolicy, Level: "team:x"}, queue.ProblemRefused},
		{queue.Ask{Op: queue.OpDeletePolicy, Level: "group:x"}, queue.ProblemNotFound},
	} {
		if r := s.askGate(0, k.q); r.Problem == nil || r.Problem.Code != k.code {
			t.Errorf("%+v: %+v", k.q, r.Problem)
		}
	}
	// The own gate of an action whose inputs all have keys has seen nobody, and is no stranger.
	s.crowd(limiter.Name("keyed", "acme"), 1)
	s.until("the action is known", func() bool {
		r := s.askGate(0, queue.Ask{Op: queue.OpGate, Gate: "keyed"})
		return r.Problem == nil && len(r.Gates) == 1 && r.Gates[0].Entered == 0 && r.Gates[0].Policy.Rate == 1
	})
	if r := s.askGate(0, queue.Ask{Op: queue.OpPolicies}); r.Problem != nil || len(r.Policies) != 1 || r.Policies[0].Level != "global" {
		t.Errorf("%+v", r)
	}
}
