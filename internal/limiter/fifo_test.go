package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// server returns a harness on a redis-server of its own.
func server(t *testing.T, args ...string) (*harness, *redistest.Server) {
	t.Helper()
	s := redistest.Start(t, args...)
	rdb := s.Client(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	return newHarness(t, rdb, run), s
}

// scripts returns the number of script calls that the server has received.
func (b *harness) scripts() int {
	b.Helper()
	info, err := b.rdb.Info(context.Background(), "commandstats").Result()
	b.must(err)
	for line := range strings.Lines(info) {
		var n int
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &n); err == nil {
			return n
		}
	}
	return 0
}

// drain makes the holders leave, atATime of them per call, and returns all members in the order in which they were admitted.
func (b *harness) drain(first []limit.Member, atATime int) []limit.Member {
	b.Helper()
	all, in := first, first
	for len(in) > 0 {
		n := min(atATime, len(in))
		got := b.admit(in[:n])
		in = append(slices.Clone(in[n:]), got.Granted...)
		all = append(all, got.Granted...)
	}
	return all
}

func TestConcurrentWaitersAreAdmittedInFIFOOrder(t *testing.T) {
	b, s := server(t)
	b.policy(concurrency(1))
	b.enter("first")
	const routines, each = 20, 50
	var wg sync.WaitGroup
	var runners []*redisx.Runner
	for range 4 {
		runners = append(runners, redisx.NewRunner(s.Client(t)))
	}
	for i := range routines {
		process := limiter.New(runners[i%4], b.space, partition)
		wg.Go(func() {
			for k := range each {
				a, err := redistest.Answer(func(done func(limit.AdmitReply, error)) {
					process.Admit(limit.AdmitRequest{Limit: b.limit, InForce: b.force, Enter: []limit.Entry{{Member: testMember(fmt.Sprint(i, "-", k))}}}, done)
				})
				if err != nil || a.Verdicts[0].Kind != limit.Waiting {
					t.Errorf("%d-%d: %v, %v", i, k, a.Verdicts, err)
				}
			}
		})
	}
	wg.Wait()
	for _, r := range runners {
		r.Close()
	}
	queue := strings.Fields(b.waiters())
	if len(queue) != routines*each {
		t.Fatalf("%d waiters", len(queue))
	}
	next := make(map[int]int)
	for _, name := range queue {
		var i, k int
		if _, err := fmt.Sscanf(name, "%d-%d", &i, &k); err != nil || next[i] != k {
			t.Fatalf("%s waits at the position of %d-%d, which was answered before %[1]s was sent", name, i, next[i])
		}
		next[i]++
	}
	b.check()
	b.want("admitted", memberNames(b.drain([]limit.Member{testMember("first")}, 1)), "first "+strings.Join(queue, " "))
	b.want("counters", b.counters(), "1001 1001 0 0 0 0")
	b.check()
}

func TestTenThousandWaitersAreAdmittedInOrder(t *testing.T) {
	b, _ := server(t)
	b.policy(history.Policy{Concurrency: 100, QueueLimit: 20_000, QueueTimeout: -1})
	begin := time.Now()
	const n = 10_000
	verdicts := make([]limit.Verdict, n)
	var wg sync.WaitGroup
	var bad atomic.Int64
	outstanding := make(chan struct{}, 200) // more would not be answered within two seconds on a slow machine
	for i := range n {
		wg.Add(1)
		outstanding <- struct{}{}
		b.limits.Admit(limit.AdmitRequest{Limit: b.limit, InForce: b.force, Enter: []limit.Entry{{Member: testMember(fmt.Sprint(i))}}}, func(a limit.AdmitReply, err error) {
			if err == nil {
				verdicts[i] = a.Verdicts[0]
			} else {
				bad.Add(1)
			}
			<-outstanding
			wg.Done()
		})
	}
	wg.Wait()
	entered := time.Since(begin)
	if bad.Load() > 0 {
		t.Fatalf("%d calls failed", bad.Load())
	}
	var first []limit.Member
	for i, v := range verdicts {
		switch {
		case i < 100 && v.Kind == limit.Admitted:
			first = append(first, testMember(fmt.Sprint(i)))
		case i >= 100 && v.Kind == limit.Waiting && v.Position == i-99:
		default:
			t.Fatalf("%d: %+v", i, v)
		}
	}
	for i, m := range b.drain(first, 10) {
		if memberName(m) != fmt.Sprint(i) {
			t.Fatalf("%s was admitted as number %d", memberName(m), i)
		}
	}
	b.want("counters", b.counters(), "10000 10000 0 0 0 0")
	b.check()
	t.Logf("entered in %v, passed in %v", entered, time.Since(begin))
	if d := time.Since(begin); d > 3*time.Minute {
		t.Errorf("it took %v", d)
	}
}

func TestWaiterTakesAtMost300Bytes(t *testing.T) {
	b, _ := server(t)
	b.policy(history.Policy{Concurrency: 1})
	const n = 10_000
	for from := 0; from < n; from += 500 {
		var es []limit.Entry
		for i := from; i < from+500; i++ {
			id := fmt.Sprintf("order-%06d", 123_456+i)
			es = append(es, limit.Entry{Member: limit.Member{
				Ticket: limit.StartTicket(id, history.Position{Seq: uint64(i)}), Instance: id, Place: limit.ActivityPlace(1, 17),
			}})
		}
		b.admit(nil, es...)
	}
	total := int64(0)
	k := b.space.Limit(b.limit)
	for _, key := range []string{k.Waiters(), k.Holders(), k.State()} {
		m, err := b.rdb.MemoryUsage(t.Context(), key, 0).Result()
		b.must(err)
		total += m
	}
	t.Logf("%d bytes a waiter", total/n)
	if total/n > 300 {
		t.Errorf("%d bytes a waiter", total/n)
	}
	b.want("the default maximum of waiters", formatVerdicts(b.enter("last", "one too many")), "10000, queue full")
}

func TestRequestsDuringAScriptAreBatchedInOrder(t *testing.T) {
	b, s := server(t)
	b.policy(concurrency(10))
	b.setLastUse(0)
	b.enter("0") // the scripts are loaded and the connections open
	before := b.scripts()
	s.Pause()
	const n = 300
	var order []int
	answers := make(chan int, n)
	granted := make([]limit.AdmitReply, n)
	for i := range n {
		b.limits.Admit(limit.AdmitRequest{Limit: b.limit, InForce: b.force, Enter: []limit.Entry{{Member: testMember(fmt.Sprint(i + 1))}}}, func(a limit.AdmitReply, err error) {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
			granted[i] = a
			answers <- i
		})
	}
	s.Resume()
	for range n {
		order = append(order, <-answers)
	}
	if !slices.IsSorted(order) {
		t.Errorf("answered in the order %v", order)
	}
	sweeps := 0
	for i, a := range granted {
		want := "admitted"
		if i+1 >= 10 {
			want = fmt.Sprint(i + 1 - 9)
		}
		b.want(fmt.Sprint(i+1), formatVerdicts(a), want)
		if a.SweepNow {
			sweeps++
		}
	}
	if sweeps != 1 {
		t.Errorf("%d replies request a sweep for the first waiter", sweeps)
	}
	if got := b.scripts() - before; got > 2 {
		t.Errorf("%d scripts for %d calls", got, n)
	}
	b.check()
}

func TestBatchedRequestsHaveTheOutcomesOfSingleOnes(t *testing.T) {
	b, s := server(t)
	b.policy(concurrency(1))
	b.enter("a", "b", "c", "d")
	var wg sync.WaitGroup
	type answer struct {
		limit.AdmitReply
		err error
	}
	got := make([]answer, 6)
	call := func(i int, force limit.InForce, leave []limit.Member, enter ...limit.Entry) {
		wg.Add(1)
		b.limits.Admit(limit.AdmitRequest{Limit: b.limit, InForce: force, Leave: leave, Enter: enter}, func(a limit.AdmitReply, err error) {
			got[i] = answer{a, err}
			wg.Done()
		})
	}
	s.Pause()
	call(0, b.force, nil) // outstanding; the others are batched
	call(1, b.force, []limit.Member{testMember("a")})
	call(2, limit.InForce{Policy: concurrency(2), Level: "action", Version: 9}, nil, limit.Entry{Member: testMember("e")})
	call(3, b.force, nil, limit.Entry{Member: testMember("f")})        // with an older policy than the previous request
	call(4, b.force, []limit.Member{testMember("e"), testMember("f")}) // they enter in the same batch, so they must leave in a later one
	call(5, limit.InForce{}, nil, limit.Entry{Member: testMember("b")})
	s.Resume()
	wg.Wait()
	for i, a := range got {
		if a.err != nil {
			t.Fatalf("%d: %v", i, a.err)
		}
	}
	b.want("admitted, reported to one of them", memberNames(slices.Concat(got[0].Granted, got[1].Granted, got[2].Granted, got[3].Granted, got[4].Granted, got[5].Granted)), "b c")
	b.want("e", formatVerdicts(got[2].AdmitReply), "2")
	b.want("f", formatVerdicts(got[3].AdmitReply), "3")
	b.want("b", formatVerdicts(got[5].AdmitReply), "admitted")
	b.want("waiters", b.waiters(), "d")
	b.want("counters", b.counters(), "6 1 0 0 2 0")
	b.check()
}

func TestLargeRequestIsSplitAndAnsweredOnce(t *testing.T) {
	b, _ := server(t)
	b.policy(concurrency(1_200))
	var es []limit.Entry
	var ms []limit.Member
	for i := range 2_700 {
		es = append(es, limit.Entry{Member: testMember(fmt.Sprint(i))})
		ms = append(ms, testMember(fmt.Sprint(i)))
	}
	a := b.admit(nil, es...)
	if len(a.Verdicts) != 2_700 || a.Verdicts[1_199].Kind != limit.Admitted || a.Verdicts[2_699].Position != 1_500 || !a.SweepNow {
		t.Errorf("%d verdicts, %+v, %+v", len(a.Verdicts), a.Verdicts[1_199], a.Verdicts[2_699])
	}
	a = b.admit(ms[:1_200], limit.Entry{Member: testMember("last")})
	b.want("all that there is room for, in order", memberNames(a.Granted), memberNames(ms[1_200:2_400]))
	b.want("the entry", formatVerdicts(a), "301")
	b.check()
}

func TestAdmitWithoutReplyIsErrTimeoutOnce(t *testing.T) {
	b, s := server(t)
	b.policy(concurrency(1))
	b.enter("a")
	s.Pause()
	begin := time.Now()
	var calls [5]atomic.Int64
	var wg sync.WaitGroup
	for i := range calls {
		wg.Add(1)
		b.limits.Admit(limit.AdmitRequest{Limit: b.limit, InForce: b.force, Enter: []limit.Entry{{Member: testMember(fmt.Sprint(i))}}}, func(_ limit.AdmitReply, err error) {
			if !errors.Is(err, limiter.ErrTimeout) || !strings.Contains(err.Error(), b.limit) {
				t.Errorf("%d: %v", i, err)
			}
			if calls[i].Add(1) == 1 {
				wg.Done()
			}
		})
	}
	wg.Wait()
	if d := time.Since(begin); d < 1500*time.Millisecond || d > 20*time.Second {
		t.Errorf("answered after %v", d)
	}
	s.Resume()
	// The first request was outstanding and takes effect; the others were not sent. A repeated request changes nothing.
	b.want("requesting again", formatVerdicts(b.enter("0", "1", "2")), "1, 2, 3")
	// More than the first were sent if the pipeline of "a" had not ended yet. No caller is counted twice.
	if st := b.stats(); st.TotalEnqueued < 4 || st.TotalEnqueued > 6 || int(st.TotalEnqueued) != st.Active+st.QueueLength {
		t.Errorf("%+v", st)
	}
	for i := range calls {
		if n := calls[i].Load(); n != 1 {
			t.Errorf("%d was answered %d times", i, n)
		}
	}
	b.check()
}

func TestWaitersSurviveRedisRestart(t *testing.T) {
	b, s := server(t, "--appendonly", "yes", "--appendfsync", "always")
	b.policy(concurrency(1))
	b.enter("a", "b", "c")
	s.Restart(t)
	b.want("after the restart, without loaded scripts", formatVerdicts(b.enter("c", "b", "a", "d")), "2, 1, admitted, 3")
	b.want("granted", memberNames(b.leave("a").Granted), "b")
	b.want("counters", b.counters(), "4 1 0 0 0 0")
	b.check()
}

// Trap: a call whose reply is lost is executed twice.
func TestLostReplyChangesNoCounterAndNoPosition(t *testing.T) {
	b, s := server(t)
	b.policy(concurrency(3))
	proxy, rdb := s.Proxy(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	lossy := limiter.New(run, b.space, partition)
	proxy.LoseReplies(4)
	retry := func(c limit.AdmitRequest) {
		t.Helper()
		c.Limit, c.InForce = b.limit, b.force
		for range 100 {
			if _, err := redistest.Answer(func(done func(limit.AdmitReply, error)) { lossy.Admit(c, done) }); err == nil {
				return
			}
		}
		t.Fatal("no call succeeded")
	}
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprint(i))
		retry(limit.AdmitRequest{Enter: []limit.Entry{{Member: testMember(names[i])}}})
	}
	b.want("waiters", b.waiters(), strings.Join(names[3:], " "))
	b.want("counters", b.counters(), "40 0 0 0 0 0")
	for i := range 20 {
		retry(limit.AdmitRequest{Leave: []limit.Member{testMember(names[i])}})
	}
	if proxy.Lost() == 0 {
		t.Fatal("no reply was lost")
	}
	b.want("waiters", b.waiters(), strings.Join(names[23:], " "))
	b.want("counters", b.counters(), "40 20 0 0 0 0")
	b.check()
}

func TestEveryCallIsAnsweredWhenTheRunnerCloses(t *testing.T) {
	b, _ := server(t)
	run := redisx.NewRunner(b.rdb)
	limits := limiter.New(run, b.space, partition)
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Add(1)
		go limits.Admit(limit.AdmitRequest{Limit: fmt.Sprint("g", i%3), Enter: []limit.Entry{{Member: testMember(fmt.Sprint(i))}}}, func(_ limit.AdmitReply, err error) {
			if err != nil && !errors.Is(err, redisx.ErrClosed) {
				t.Error(err)
			}
			wg.Done()
		})
	}
	run.Close()
	wg.Wait()
}
