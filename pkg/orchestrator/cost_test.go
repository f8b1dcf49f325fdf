package orchestrator_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// The cost of one activity in a chain, as in docs/architecture.md: three scripts (claim, ack,
// commit); to NATS the task, its acknowledgement by the worker, and the doorbell (a request
// for more tasks covers many); no separate read of the inbox.
func TestActivityOfAChainTakesThreeScriptsAndThreeMessages(t *testing.T) {
	countChain(t, greet, 3.05)
}

// A limit with free slots takes one more script, in which the activity enters and the previous one leaves.
func TestActivityWithAnOpenLimitTakesOneMoreScriptAndNoMessage(t *testing.T) {
	countChain(t, pawl.NewActivity[string, string]("greet", pawl.Concurrency(100)), 4.05)
}

func countChain(t *testing.T, greet pawl.Activity[string, string], scripts float64) {
	countChainOf(t, greet, costs{scripts, 3.1}, orchestrator.Config{ReconcileInterval: 10 * time.Second}, worker.Config{LeaseTTL: 10 * time.Second})
}

// costs is the maximum cost of an activity.
type costs struct{ scripts, messages float64 }

func countChainOf(t *testing.T, greet pawl.Activity[string, string], most costs, owner orchestrator.Config, runs worker.Config) {
	s := newOwnHarness(t)
	chain := pawl.NewOrchestration[int, int]("chain")
	s.orchestrate(owner, chain.Do(func(ctx *pawl.Context, n int) (int, error) {
		for range n {
			if _, err := greet.Call(ctx, "x"); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	s.work(runs, greet.Do(doGreet))
	s.start("chain", "warm-up", "3")
	s.ended("warm-up")
	const steps = 150
	scripts, lists := s.redisCalls("evalsha"), s.redisCalls("lrange")
	in := s.natsIn()
	began := time.Now()
	s.start("chain", "c-1", strconv.Itoa(steps))
	s.until("it ends", func() bool {
		n, err := s.redis.ZScore(s.ctx(), "pawl:{"+s.ns+"."+strconv.Itoa(s.conn.PartitionOf("c-1"))+"}:x:completed", "c-1").Result()
		return err == nil && n > 0
	})
	took := time.Since(began)
	// In addition: renewal and poll of 8 partitions per second, heartbeats, the sweeps of a limit, and the start.
	background := 20*took.Seconds() + 20
	perActivity := func(n int64) float64 { return (float64(n) - background) / steps }
	if got := perActivity(s.redisCalls("evalsha") - scripts); got > most.scripts {
		t.Errorf("%.2f scripts an activity", got)
	} else {
		t.Logf("%.2f scripts an activity", got)
	}
	if got := float64(s.redisCalls("lrange")-lists) / steps; got > 1.1 { // one as part of each commit
		t.Errorf("%.2f LRANGE an activity: some inbox reads are not part of a commit", got)
	}
	if got := perActivity(s.natsIn() - in); got > most.messages {
		t.Errorf("%.2f messages into NATS an activity", got)
	} else {
		t.Logf("%.2f messages into NATS an activity, %v", got, took/steps)
	}
}

func (s streamHarness) redisCalls(command string) int64 {
	s.t.Helper()
	info, err := s.redis.Info(s.ctx(), "commandstats").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(info)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	return n
}

func (s streamHarness) natsIn() int64 {
	s.t.Helper()
	v, err := s.srv.Varz(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return v.InMsgs
}

// A new owner folds the whole history of an instance. It must not release slots that earlier turns have released.
func TestTakeoverDoesNotReleaseSlotsAgain(t *testing.T) {
	s := newOwnHarness(t)
	const steps = 100
	through := pawl.NewActivity[string, string]("through", pawl.Concurrency(100))
	more := pawl.NewEvent[int]("more")
	long := pawl.NewOrchestration[int, int]("long")
	does := long.Do(func(ctx *pawl.Context, n int) (int, error) {
		for range n {
			if _, err := through.Call(ctx, "x"); err != nil {
				return 0, err
			}
		}
		return more.Receive(ctx)
	})
	first := s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, does)
	s.work(worker.Config{}, through.Do(doGreet))
	s.start("long", "l-1", strconv.Itoa(steps))
	s.until("it waits for more", func() bool { return s.describe("l-1").Events == 1+2*steps })
	s.stop(first)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, does)
	before := s.redisCalls("zscore")
	s.event("more", "l-1", `1`)
	s.ended("l-1")
	if n := s.redisCalls("zscore") - before; n > steps/2 {
		t.Errorf("limits were called for %d members: former holders are released again", n)
	}
	s.quiet("through")
}
