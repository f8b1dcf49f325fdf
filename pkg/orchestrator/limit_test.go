package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// heldActivity is an activity that signals when it begins, and ends when it receives a signal.
type heldActivity struct {
	began chan string
	end   chan struct{}

	mu   sync.Mutex
	in   int
	most int
}

func newHeldActivity() *heldActivity {
	return &heldActivity{began: make(chan string, 10_000), end: make(chan struct{})}
}

func (s *heldActivity) do(ctx context.Context, caller string) (string, error) {
	s.mu.Lock()
	s.in++
	s.most = max(s.most, s.in)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.in--
		s.mu.Unlock()
	}()
	s.began <- caller
	select {
	case <-s.end:
		return caller, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (s limitHarness) limits() *limiter.Limiter {
	run := redisx.NewRunner(s.redis)
	s.t.Cleanup(run.Close)
	return limiter.New(run, s.space, s.conn.PartitionOf)
}

func (s limitHarness) stats(name string) limiter.Stats {
	s.t.Helper()
	got, _, err := s.limits().Stats(s.ctx(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// quiet waits until a limit has no member, and checks its counters.
func (s limitHarness) quiet(name string) limiter.Stats {
	s.t.Helper()
	var got limiter.Stats
	s.until("limit "+name+" is empty", func() bool { got = s.stats(name); return got.Active == 0 && got.QueueLength == 0 })
	for _, err := range s.limits().Check(s.ctx(), name) {
		s.t.Errorf("limit %s: %v", name, err)
	}
	return got
}

func (s *harness) receive(from <-chan string) string {
	s.t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		s.t.Fatal("nothing received")
		return ""
	}
}

func (s limitHarness) waiting(name string, n int) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d wait at %s", n, name), func() bool { return s.stats(name).QueueLength == n })
}

// oneWaits starts h-0, which runs the limited activity, and h-1, which waits for it.
func (s limitHarness) oneWaits(held *heldActivity) limiter.Waiter {
	s.t.Helper()
	s.start("hello", "h-0", `"h-0"`)
	s.receive(held.began)
	s.start("hello", "h-1", `"h-1"`)
	s.waiting("limited", 1)
	waiters, err := s.limits().Waiters(s.ctx(), "limited", 0, 1)
	if err != nil || len(waiters) != 1 {
		s.t.Fatal(waiters, err)
	}
	return waiters[0]
}

// enter adds a member without an instance to a limit.
func (s limitHarness) enter(name string, m limit.Member) {
	s.t.Helper()
	s.enterWith(name, history.Policy{Concurrency: 1}, m)
}

func (s limitHarness) enterWith(name string, p history.Policy, m limit.Member) {
	s.t.Helper()
	_, err := redistest.Answer(func(done func(limit.AdmitReply, error)) {
		s.limits().Admit(limit.AdmitRequest{
			Limit: name, InForce: limit.InForce{Policy: p, Level: "action", Version: 1}, Enter: []limit.Entry{{Member: m}},
		}, done)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestCallersAreAdmittedAtOnceWhileThereIsRoomThenInOrder(t *testing.T) {
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(2))
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{Concurrency: 20}, limited.Do(held.do))
	for i := range 5 {
		s.start("hello", fmt.Sprint("h-", i), fmt.Sprintf("%q", fmt.Sprint("h-", i)))
		if i < 2 {
			if caller := s.receive(held.began); caller != fmt.Sprint("h-", i) {
				t.Fatal(caller)
			}
		} else {
			s.waiting("limited", i-1)
		}
	}
	s.until("its wait is described", func() bool { // it enters the limit before its turn is committed
		w := s.describe("h-4").LimitWaits
		return len(w) == 1 && w[0].Position == 3 && w[0].Action == "limited"
	})
	for i := 2; i < 5; i++ {
		held.end <- struct{}{}
		if caller := s.receive(held.began); caller != fmt.Sprint("h-", i) {
			t.Fatalf("%s began, want h-%d", caller, i)
		}
	}
	close(held.end)
	for i := range 5 {
		if d := s.ended(fmt.Sprint("h-", i)); d.Status != "completed" {
			t.Fatalf("%+v", d.Failure)
		}
	}
	got := s.quiet("limited")
	if got.TotalEnqueued != 5 || got.TotalCompleted != 5 || held.most != 2 {
		t.Fatalf("%+v, at most %d", got, held.most)
	}
}

func TestWaitingInstanceIsPendingAndKeepsItsSlotUntilItEnds(t *testing.T) {
	s := newHarness(t)
	one := pawl.NewOrchestration[int, string]("one", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{}, one.Do(func(ctx *pawl.Context, left int) (string, error) {
		if left > 0 {
			return one.ContinueAsNew(ctx, left-1)
		}
		return ping.Receive(ctx)
	}))
	s.start("one", "first", "2")
	s.until("the first runs", func() bool { return s.describe("first").Execution == 3 })
	s.start("one", "second", "0")
	s.start("one", "third", "0")
	s.until("they wait", func() bool { return s.stats("one").QueueLength == 2 })
	for _, id := range []string{"second", "third"} {
		s.until(id+" is pending", func() bool { return s.describe(id).Status == string(record.Pending) })
	}
	s.publish(message.OutInput{Instance: "second", Kind: message.KindCancel, By: "ops"})
	if d := s.ended("second"); d.Status != "cancelled" || len(s.history("second")) != 3 {
		t.Fatalf("%s, %d events", d.Status, len(s.history("second")))
	}
	s.event("ping", "third", `"early"`)
	s.event("ping", "first", `"go"`)
	if d := s.ended("first"); d.Status != "completed" {
		t.Fatalf("%+v", d.Failure)
	}
	if d := s.ended("third"); d.Status != "completed" {
		t.Fatalf("%+v", d.Failure)
	}
	got := s.quiet("one")
	if got.TotalEnqueued != 3 || got.TotalCompleted != 2 || got.Withdrawn != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestFullLimitAndTimeoutAreErrorsOfTheCall(t *testing.T) {
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1), pawl.QueueLimit(1), pawl.QueueTimeout(500*time.Millisecond))
	call := func(ctx *pawl.Context) *pawl.Future[string] {
		return limited.Start(ctx, "x", pawl.Retry{Attempts: 3, Initial: time.Millisecond})
	}
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) {
		if caller == "one" {
			return call(ctx).Get(ctx)
		}
		waits, finds := call(ctx), call(ctx) // in one turn, so that the queue is full while the first one waits, however briefly
		if _, err := finds.Get(ctx); !errors.Is(err, pawl.ErrQueueFull) {
			return "", fmt.Errorf("the limit is full, and the call returns %w", err)
		}
		if _, err := waits.Get(ctx); !errors.Is(err, pawl.ErrQueueTimeout) {
			return "", fmt.Errorf("the maximum wait is over, and the call returns %w", err)
		}
		return "", nil
	}))
	s.work(worker.Config{}, limited.Do(held.do))
	s.start("hello", "h-0", `"one"`)
	s.receive(held.began)
	s.start("hello", "h-1", `"two"`)
	if d := s.ended("h-1"); d.Status != "completed" {
		t.Fatalf("%+v", d.Failure)
	}
	close(held.end)
	s.ended("h-0")
	got := s.quiet("limited")
	if got.TotalEnqueued != 2 || got.TotalCompleted != 1 || got.TimedOut != 1 || got.Rejected != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestCancelledActivitiesLeaveTheirPlaceAndTheirSlot(t *testing.T) {
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{}, limited.Do(held.do))
	for i := range 3 {
		s.start("hello", fmt.Sprint("h-", i), fmt.Sprintf("%q", fmt.Sprint("h-", i)))
		if i == 0 {
			s.receive(held.began)
		} else {
			s.waiting("limited", i)
		}
	}
	s.publish(message.OutInput{Instance: "h-1", Kind: message.KindCancel, By: "ops"})
	s.ended("h-1")
	s.waiting("limited", 1)
	s.publish(message.OutInput{Instance: "h-0", Kind: message.KindCancel, By: "ops"})
	if caller := s.receive(held.began); caller != "h-2" {
		t.Fatal(caller)
	}
	close(held.end)
	s.ended("h-2")
	s.ended("h-0")
	got := s.quiet("limited")
	if got.TotalEnqueued != 3 || got.TotalCompleted != 2 || got.Withdrawn != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestRetryWaitsAgainUnlessItKeepsItsSlot(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprint(keeps), func(t *testing.T) {
			s := newHarness(t)
			limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
			s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) {
				opts := []pawl.CallOption{pawl.Retry{Attempts: 2, Initial: 200 * time.Millisecond}}
				if keeps {
					opts = append(opts, pawl.KeepSlot())
				}
				return limited.Call(ctx, caller, opts...)
			}))
			began, fail := make(chan string, 10), make(chan bool)
			s.work(worker.Config{}, limited.Do(func(_ context.Context, caller string) (string, error) {
				began <- caller
				if <-fail {
					return "", errors.New("again")
				}
				return caller, nil
			}))
			s.start("hello", "h-0", `"h-0"`)
			s.receive(began)
			s.start("hello", "h-1", `"h-1"`)
			s.waiting("limited", 1)
			fail <- true
			want := []string{"h-1", "h-0"}
			if keeps {
				want = []string{"h-0", "h-1"}
			}
			for _, w := range want {
				if caller := s.receive(began); caller != w {
					t.Fatalf("%s began, want %s", caller, w)
				}
				fail <- false
			}
			s.ended("h-0")
			s.ended("h-1")
			s.quiet("limited")
		})
	}
}

func TestLostNoticeIsRepeated(t *testing.T) {
	t.Parallel() // mostly waits
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{ReconcileInterval: time.Minute}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{}, limited.Do(held.do))
	// A holder that is in no history, as after a turn that was lost between the limit and the commit.
	orphan := limit.Member{Ticket: "orphan", Instance: "absent", Place: limit.ActivityPlace(1, 2)}
	s.enter("limited", orphan)
	began := time.Now()
	s.start("hello", "h-0", `"h-0"`)
	s.receive(held.began)
	if d := time.Since(began); d > 20*time.Second { // the limit repeats after four seconds; a busy machine takes longer
		t.Errorf("the slot was leaked for %v", d)
	}
	close(held.end)
	s.ended("h-0")
	s.quiet("limited")
}

// The ticket was admitted for an owner whose turn was lost, has left since, and has entered again. The notice of its first grant arrives late.
func TestNoticeThatTheLimitDoesNotConfirmIsNoGrant(t *testing.T) {
	s, held, met := newHarness(t), newHeldActivity(), counters(t)
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second, Metrics: met.reg}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{}, limited.Do(held.do))
	waiter := s.oneWaits(held)
	s.until("it is in its history", func() bool { return len(s.describe("h-1").LimitWaits) == 1 && s.describe("h-1").Events == 2 })
	forged := time.Now().Add(time.Hour).UnixMilli() // any client with the permission can publish it
	for _, at := range []int64{waiter.Since - 1, forged} {
		before := met.get("pawl_orchestrator_limit_requests_repeated_total")
		late := message.LimitNotice{Limit: "limited", Member: waiter.Member.String(), At: at}
		if err := s.conn.SendLimitNotices(s.conn.PartitionOf("h-1"), []message.LimitNotice{late}); err != nil {
			t.Fatal(err)
		}
		s.until("the limit is requested", func() bool { return met.get("pawl_orchestrator_limit_requests_repeated_total") > before })
	}
	if d := s.describe("h-1"); len(d.LimitWaits) != 1 || d.Events != 2 {
		t.Fatalf("%+v", d)
	}
	close(held.end)
	s.ended("h-0")
	if d := s.ended("h-1"); d.Status != "completed" || held.most != 1 {
		t.Fatalf("%+v, at most %d", d, held.most)
	}
	s.quiet("limited")
}

// A turn that was lost entered the limit of another key. The turn that replaced it has the same ticket, and waits at a different limit.
func TestTicketLeavesALimitThatItsHistoryDoesNotName(t *testing.T) {
	t.Parallel() // mostly waits
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{}, limited.Do(held.do))
	waiter := s.oneWaits(held)
	s.enter("limited/old", waiter.Member)
	s.quiet("limited/old")
	if d := s.describe("h-1"); len(d.LimitWaits) != 1 || d.LimitWaits[0].Action != "limited" {
		t.Fatalf("%+v", d.LimitWaits)
	}
	other := waiter.Member // in that turn the code retained the slot
	other.Place = limit.RetainedPlace
	if _, err := redistest.Answer(func(done func(limit.AdmitReply, error)) {
		s.limits().Admit(limit.AdmitRequest{Limit: "limited", Enter: []limit.Entry{{Member: other, Active: true}}}, done)
	}); err != nil {
		t.Fatal(err)
	}
	s.until("only h-0 holds a slot", func() bool { return s.stats("limited").Active == 1 })
	s.waiting("limited", 1)
	close(held.end)
	s.ended("h-1")
	s.quiet("limited")
}

// The attempt is admitted, and times out at once.
func TestRetainedSlotOutlastsAnAttemptThatTimesOutAtOnce(t *testing.T) {
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) {
		if caller == "h-0" {
			return limited.Call(ctx, caller)
		}
		return limited.Call(ctx, caller, pawl.Retry{Attempts: 2, Initial: time.Hour, Max: time.Hour}, pawl.AttemptTimeout(time.Millisecond), pawl.KeepSlot())
	}))
	s.work(worker.Config{}, limited.Do(func(ctx context.Context, caller string) (string, error) {
		if caller == "h-1" { // it must not end before its timeout
			<-ctx.Done()
			return "", ctx.Err()
		}
		return held.do(ctx, caller)
	}))
	s.oneWaits(held)
	close(held.end)
	s.ended("h-0")
	s.until("it waits for its retry and keeps its slot", func() bool { return s.describe("h-1").Timers == 1 && s.stats("limited").Active == 1 })
	s.check()
}

func TestChangedPolicyIsInForceAtOnceForWaiters(t *testing.T) {
	s, held := newHarness(t), newHeldActivity()
	plain := pawl.NewActivity[string, string]("plain")
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return plain.Call(ctx, caller) }))
	s.work(worker.Config{Concurrency: 50}, plain.Do(held.do))
	set := func(n uint32) {
		t.Helper()
		s.until("the policy is set", func() bool {
			q := &request.SetPolicy{Level: "action:plain", Policy: history.Policy{Concurrency: n}}
			return request.Call(s.ctx(), s.conn, 0, q, new(request.Done)) == nil
		})
	}
	set(1)
	for i := range 20 {
		s.start("hello", fmt.Sprint("h-", i), fmt.Sprintf("%q", fmt.Sprint("h-", i)))
	}
	s.waiting("plain", 19)
	s.receive(held.began)
	began := time.Now()
	set(10)
	for range 9 {
		s.receive(held.began)
	}
	if d := time.Since(began); d > 30*time.Second { // without the notice, policies are read every second
		t.Errorf("after %v", d)
	}
	set(3)
	s.until("the policy is in force", func() bool { return s.stats("plain").MaxConcurrent == 3 })
	if got := s.stats("plain"); got.Active != 10 || got.QueueLength != 10 {
		t.Fatalf("%+v", got)
	}
	s.must(s.request(0, &request.DeletePolicy{Level: "action:plain"}, new(request.Done)))
	for range 10 {
		s.receive(held.began)
	}
	close(held.end)
	for i := range 20 {
		s.ended(fmt.Sprint("h-", i))
	}
	s.quiet("plain")
}

// unreachable makes the limits unreachable for one client, as if their master in a cluster had failed.
type unreachable struct{ on atomic.Bool }

func (*unreachable) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*unreachable) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (w *unreachable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return failing(next, func(args []any) error {
		if w.on.Load() && len(args) > 3 && strings.Contains(fmt.Sprint(args[3]), ".l.") {
			return errors.New("the node of the limits is unreachable")
		}
		return nil
	})
}

// failing carries out a pipeline, except for the calls for which it has an error.
func failing(next redis.ProcessPipelineHook, errorOf func(args []any) error) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		rest := make([]redis.Cmder, 0, len(all))
		for _, c := range all {
			if err := errorOf(c.Args()); err != nil {
				c.SetErr(err)
			} else {
				rest = append(rest, c)
			}
		}
		if len(rest) == 0 {
			return nil
		}
		return next(ctx, rest)
	}
}

func TestLimitThatDoesNotAnswerDelaysNoOtherInstanceAndIsRequestedAgain(t *testing.T) {
	s, held, fault := newHarness(t), newHeldActivity(), &unreachable{}
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	one := pawl.NewOrchestration[string, string]("one", pawl.Concurrency(1))
	s.redis.AddHook(fault)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, one.Do(func(ctx *pawl.Context, caller string) (string, error) {
		first, second := limited.Start(ctx, caller), greet.Start(ctx, caller)
		if _, err := first.Get(ctx); err != nil {
			return "", err
		}
		return second.Get(ctx)
	}), hello.Do(callGreet))
	s.work(worker.Config{}, limited.Do(held.do), greet.Do(doGreet))

	fault.on.Store(true)
	s.start("one", "o", `"o"`)
	s.until("the start is pending", func() bool { return s.describe("o").Status == string(record.Pending) })
	s.start("hello", "h", `"you"`)
	s.ended("h")
	fault.on.Store(false)
	if caller := s.receive(held.began); caller != "o" {
		t.Fatal(caller)
	}
	fault.on.Store(true) // now the slot cannot be released either
	close(held.end)
	s.ended("o")
	fault.on.Store(false)
	for _, name := range []string{"one", "limited"} {
		if got := s.quiet(name); got.TotalEnqueued != 1 || got.TotalCompleted != 1 {
			t.Errorf("%+v", got)
		}
	}
}

func TestNoticeOfAnEndedInstanceDoesNotBlockItsInbox(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, hello.Do(func(_ *pawl.Context, caller string) (string, error) { return caller, nil }))
	var ids []string
	for i := range 20 {
		id := fmt.Sprint("h-", i)
		ids = append(ids, id)
		s.start("hello", id, `"x"`)
		s.ended(id)
	}
	for _, id := range ids {
		m := limit.Member{Ticket: "ticket", Instance: id, Place: limit.RetainedPlace}
		s.event("late", id, `1`)
		for range 5 {
			if err := s.conn.SendLimitNotices(s.conn.PartitionOf(id), []message.LimitNotice{{Limit: "limited", Member: m.String(), At: 1}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range ids {
		s.until("the inbox is empty: "+id, func() bool { return s.redis.LLen(s.ctx(), s.key(id, "in:"+id)).Val() == 0 })
	}
}
