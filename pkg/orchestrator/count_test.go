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

// The count of one activity in a chain, as docs/architecture.md has it: three scripts (claim, ack,
// commit); into NATS the task, its acknowledgement by the worker, and the doorbell (the requests
// for more tasks are for many at once); no inbox is read by itself.
func TestActivityOfAChainTakesThreeScriptsAndThreeMessages(t *testing.T) {
	countChain(t, greet, 3.05)
}

// An open limit takes one script more: the activity enters, and the one before it leaves.
func TestActivityWithAnOpenLimitTakesOneMoreScriptAndNoMessage(t *testing.T) {
	countChain(t, pawl.NewActivity[string, string]("greet", pawl.Concurrency(100)), 4.05)
}

func countChain(t *testing.T, greet pawl.Activity[string, string], scripts float64) {
	countChainOf(t, greet, costs{scripts, 3.1}, orchestrator.Config{ReconcileInterval: 10 * time.Second}, worker.Config{LeaseTTL: 10 * time.Second})
}

// costs is the maximum that an activity costs.
type costs struct{ scripts, messages float64 }

func countChainOf(t *testing.T, greet pawl.Activity[string, string], most costs, owner orchestrator.Config, runs worker.Config) {
	s := ownStand(t)
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
	// Besides: renewal and poll of 8 partitions each second, heartbeat, the sweeps of a limit, and the start.
	background := 20*took.Seconds() + 20
	perActivity := func(n int64) float64 { return (float64(n) - background) / steps }
	if got := perActivity(s.redisCalls("evalsha") - scripts); got > most.scripts {
		t.Errorf("%.2f scripts an activity", got)
	} else {
		t.Logf("%.2f scripts an activity", got)
	}
	if got := float64(s.redisCalls("lrange")-lists) / steps; got > 1.1 { // one inside each commit
		t.Errorf("%.2f LRANGE an activity: inboxes are read by themselves", got)
	}
	if got := perActivity(s.natsIn() - in); got > most.messages {
		t.Errorf("%.2f messages into NATS an activity", got)
	} else {
		t.Logf("%.2f messages into NATS an activity, %v", got, took/steps)
	}
}

func (s streamStand) redisCalls(command string) int64 {
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

func (s streamStand) natsIn() int64 {
	s.t.Helper()
	v, err := s.srv.Varz(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return v.InMsgs
}

// A new owner folds all of the history of an instance, and has released nothing: the turns before it have.
func TestTakeoverDoesNotReleaseSlotsAgain(t *testing.T) {
	s := ownStand(t)
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
	asked := s.redisCalls("zscore")
	s.event("more", "l-1", `1`)
	s.ended("l-1")
	if n := s.redisCalls("zscore") - asked; n > steps/2 {
		t.Errorf("limits were called for %d members: every former holder is released again", n)
	}
	s.quiet("through")
}
