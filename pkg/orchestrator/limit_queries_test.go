package orchestrator_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// addWaiters adds members without instances to a limit, which admits one per hour.
func (s limitHarness) addWaiters(name string, n int) {
	s.t.Helper()
	one := history.Policy{Rate: 1, RateWindow: time.Hour.Milliseconds()}
	s.must(s.request(0, &request.SetPolicy{Level: "global", Policy: one}, new(request.Done)))
	set, err := s.limits().Overrides(s.ctx())
	if err != nil {
		s.t.Fatal(err)
	}
	c := limit.AdmitRequest{Limit: name}
	c.InForce, _ = set.Resolve(limit.Action(name), history.Declared{}, nil)
	c.InForce.Version++ // as orchestrators pass it
	for i := range n {
		place := limit.ActivityPlace(1, uint64(i+2))
		switch i % 3 {
		case 1:
			place = limit.RetainedPlace
		case 2:
			place = limit.StartPlace(history.Position{Seq: 7, Time: 8})
		}
		c.Enter = append(c.Enter, limit.Entry{Member: limit.Member{Ticket: fmt.Sprintf("%s-%05d", strings.ReplaceAll(name, "/", "-"), i), Instance: fmt.Sprintf("absent-%d", i), Place: place}})
	}
	done := make(chan error, 1)
	s.limits().Admit(c, func(_ limit.AdmitReply, err error) { done <- err })
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

func (s limitHarness) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// request sends a request to a partition, and repeats it while the partition has no owner.
func (s limitHarness) request(part int, q request.Request, r request.Reply) (err error) {
	s.t.Helper()
	s.until("an owner answers", func() bool {
		err = request.Call(s.ctx(), s.conn, part, q, r)
		p, ok := errors.AsType[*request.Problem](err)
		return err == nil || ok && p.Code != request.ProblemNotOwner
	})
	return err
}

func (s limitHarness) limit(part int, action, key string) (stats request.LimitStats, err error) {
	s.t.Helper()
	var r request.LimitPage
	if err = s.request(part, &request.Limit{Action: action, Key: key}, &r); err == nil {
		stats = r.Limits[0]
	}
	return stats, err
}

func TestWaitersAreListedPageByPageInOrderByAnyOwner(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	s.addWaiters("bulk", 1201)
	for _, limit := range []int{0, 7, 1000} {
		want := uint64(1)
		for q := (request.Waiters{Action: "bulk", Limit: limit}); ; {
			var r request.WaiterPage
			if err := s.request(int(want)%8, &q, &r); err != nil || len(r.Waiters) > 500 {
				t.Fatalf("%d rows, %v", len(r.Waiters), err)
			}
			for _, w := range r.Waiters {
				i := want // the first member is admitted
				execution, event := uint64(1), i+2
				switch i % 3 {
				case 1:
					execution, event = 0, 0
				case 2:
					event = 1
				}
				if w.Position != want || w.Instance != fmt.Sprint("absent-", i) || w.Execution != execution || w.Event != event || w.Since == 0 {
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
	var cleared request.Cleared
	if err := s.request(3, &request.Clear{Action: "bulk"}, &cleared); err != nil || cleared.Count != 1200 {
		t.Errorf("%+v, %v", cleared, err)
	}
	var none request.WaiterPage
	if err := s.request(4, &request.Waiters{Action: "bulk"}, &none); err != nil || len(none.Waiters) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	if l, err := s.limit(5, "bulk", ""); err != nil || l.Cleared != 1200 || l.Waiting != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestEveryLimitIsListedOnceByTheOwnerOfItsPartition(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	want := make(map[string]bool)
	for i := range 60 {
		want[limit.Name("many", fmt.Sprintf("key %d", i))] = true
	}
	for name := range want {
		s.addWaiters(name, 2)
	}
	s.addWaiters("other", 1)
	for _, limit := range []int{0, 3} {
		seen := make(map[string]bool)
		for p := range 8 {
			for q := (request.Limits{Action: "many", Limit: limit}); ; {
				var r request.LimitPage
				s.must(s.request(p, &q, &r))
				for _, l := range r.Limits {
					name := l.Action + "/" + l.Key
					if seen[name] || l.Action != "many" || l.Waiting != 1 || l.Enqueued != 2 || s.conn.PartitionOf(name) != p || limit > 0 && len(r.Limits) > limit {
						t.Fatalf("%+v in partition %d", l, p)
					}
					seen[name] = true
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
	var all request.LimitPage
	s.must(s.request(s.conn.PartitionOf("other"), new(request.Limits), &all))
	if !slices.ContainsFunc(all.Limits, func(l request.LimitStats) bool { return l.Action == "other" }) {
		t.Errorf("%+v", all)
	}
	// A key that a name cannot contain is found verbatim, and in the form in which lists show it.
	shown := limit.Key(limit.Name("many", "key 7"))
	for _, key := range []string{"key 7", shown} {
		if l, err := s.limit(0, "many", key); err != nil || l.Key != shown {
			t.Errorf("%s: %+v, %v", key, l, err)
		}
	}
	if _, err := s.limit(0, "many", "x} y~"+strings.Repeat("a", 22)); !hasCode(err, request.ProblemNotFound) {
		t.Error(err)
	}
}

func TestIdleLimitIsShownWithThePolicyInForce(t *testing.T) {
	t.Parallel() // mostly waits
	s, held := newHarness(t), newHeldActivity()
	busy := pawl.NewActivity[string, string]("busy", pawl.Rate(1, time.Hour))
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return busy.Call(ctx, caller) }))
	s.work(worker.Config{}, busy.Do(held.do))
	close(held.end)
	s.start("hello", "h-0", `"h-0"`)
	s.ended("h-0")
	s.quiet("busy")
	part := s.conn.PartitionOf("busy")
	s.until("the limit has left the list", func() bool {
		var r request.LimitPage
		s.must(s.request(part, &request.Limits{Action: "busy"}, &r))
		return len(r.Limits) == 0
	})
	shown := func() request.LimitStats {
		t.Helper()
		l, err := s.limit(part, "busy", "")
		s.must(err)
		return l
	}
	if g := shown(); g.Policy.Rate != 1 || g.LimitedUntil == 0 {
		t.Errorf("by its code: %+v", g)
	}
	s.must(s.request(part, &request.SetPolicy{Level: "action:busy", Policy: history.Policy{Concurrency: 7, Key: "who"}}, new(request.Done)))
	if g := shown(); g.Policy != (history.Policy{Concurrency: 7, Key: "who"}) || g.LimitedUntil != 0 || g.Completed != 1 {
		t.Errorf("set at run time: %+v", g)
	}
	s.must(s.request(part, &request.DeletePolicy{Level: "action:busy"}, new(request.Done)))
	if g := shown(); g.Policy.Rate != 1 || g.LimitedUntil == 0 {
		t.Errorf("by its code again: %+v", g)
	}
}

func TestInvalidRequestAboutLimitsAndPoliciesIsAProblem(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(*pawl.Context, string) (string, error) { return "", nil }))
	s.addWaiters("bulk", 1)
	for _, k := range []struct {
		q    request.Request
		r    request.Reply
		code string
	}{
		{&request.Limit{Action: "a b"}, new(request.LimitPage), request.ProblemBadRequest},
		{&request.Limit{}, new(request.LimitPage), request.ProblemBadRequest},
		{&request.Limit{Action: "unknown"}, new(request.LimitPage), request.ProblemNotFound},
		{&request.Limit{Action: "bulk", Key: "k"}, new(request.LimitPage), request.ProblemNotFound},
		{&request.Waiters{Action: "unknown"}, new(request.WaiterPage), request.ProblemNotFound},
		{&request.Holders{Action: "unknown"}, new(request.WaiterPage), request.ProblemNotFound},
		{&request.Waiters{Action: "bulk", Cursor: "x"}, new(request.WaiterPage), request.ProblemBadRequest},
		{&request.Waiters{Action: "bulk", Cursor: "-1"}, new(request.WaiterPage), request.ProblemBadRequest},
		{&request.Clear{Action: "unknown"}, new(request.Cleared), request.ProblemNotFound},
		{&request.SetPolicy{Level: "team:x"}, new(request.Done), request.ProblemRefused},
		{&request.SetPolicy{Level: "global", Policy: history.Policy{Rate: 1}}, new(request.Done), request.ProblemRefused},
		{&request.DeletePolicy{Level: "team:x"}, new(request.Done), request.ProblemRefused},
		{&request.DeletePolicy{Level: "group:x"}, new(request.Done), request.ProblemNotFound},
	} {
		if err := s.request(0, k.q, k.r); !hasCode(err, k.code) {
			t.Errorf("%T %+v: %v", k.q, k.q, err)
		}
	}
	// The limit without a key is listed although it had no caller, because all inputs of the action have keys.
	s.addWaiters(limit.Name("keyed", "acme"), 1)
	s.until("the action is listed", func() bool {
		l, err := s.limit(0, "keyed", "")
		return err == nil && l.Enqueued == 0 && l.Policy.Rate == 1
	})
	var set request.PolicyList
	if err := s.request(0, new(request.Policies), &set); err != nil || len(set.Policies) != 1 || set.Policies[0].Level != "global" || len(set.Orchestrations) == 0 {
		t.Errorf("%+v, %v", set, err)
	}
}

func hasCode(err error, code string) bool {
	p, ok := errors.AsType[*request.Problem](err)
	return ok && p.Code == code
}
