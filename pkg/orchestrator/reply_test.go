package orchestrator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// throughProxy connects orchestrators to Redis through a proxy. Workers and the checker connect directly.
func (s *harness) throughProxy() (p *netfault.Proxy, orchestrate func(orchestrator.Config, ...pawl.OrchestrationBinding) *orchestrator.Orchestrator) {
	p, rdb := s.server.Proxy(s.t)
	return p, func(cfg orchestrator.Config, os ...pawl.OrchestrationBinding) *orchestrator.Orchestrator {
		direct := s.redis
		s.redis = rdb
		defer func() { s.redis = direct }()
		return s.orchestrate(cfg, os...)
	}
}

// A completion that is too large for its doorbell, and arrives between a commit and its reply, is not in the
// memory of any process: the owner must read the inbox.
func TestLargeResultBetweenACommitAndItsReplyIsReadAtOnce(t *testing.T) {
	t.Parallel() // mostly waits
	const look = 30 * time.Second
	s := newHarness(t)
	p, orchestrate := s.throughProxy()
	large := pawl.NewActivity[int, string]("large")
	rounds := pawl.NewOrchestration[int, int]("rounds")
	orchestrate(orchestrator.Config{ReconcileInterval: look}, rounds.Do(func(ctx *pawl.Context, n int) (int, error) {
		for i := range n {
			a, b := large.Start(ctx, i), large.Start(ctx, i)
			if _, err := pawl.All(ctx, a, b); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	second := make(chan struct{}, 1)
	s.work(worker.Config{}, large.Do(func(ctx context.Context, _ int) (string, error) {
		select {
		case second <- struct{}{}: // the first one of two
		default:
			<-second
			select { // until a turn has taken the completion of the first one, and the reply to its commit is outstanding
			case <-ctx.Done():
			case <-time.After(60 * time.Millisecond):
			}
		}
		return strings.Repeat("x", 8<<10), nil
	}))
	p.Delay(40 * time.Millisecond)
	s.start("rounds", "l-1", "5")
	s.ended("l-1")
	p.Delay(0)
	var last int64
	for _, e := range s.history("l-1") {
		if c, ok := e.(*history.ActivityCompleted); ok {
			if last != 0 && c.At-last > look.Milliseconds()/2 {
				t.Errorf("event %d was recorded %d ms after the previous one: it waited for the reconciliation", c.ID, c.At-last)
			}
			last = c.At
		}
	}
}

func TestLostRepliesOfRedisRepeatNothing(t *testing.T) {
	s := newHarness(t)
	p, orchestrate := s.throughProxy()
	const instances, steps = 16, 8
	chain := pawl.NewOrchestration[int, string]("chain")
	orchestrate(orchestrator.Config{}, chain.Do(func(ctx *pawl.Context, n int) (string, error) {
		var got []string
		for i := range n {
			v, err := ping.Receive(ctx)
			if err != nil {
				return "", err
			}
			echo, err := greet.Call(ctx, fmt.Sprint(v, i))
			if err != nil {
				return "", err
			}
			got = append(got, strings.TrimPrefix(echo, "hello "))
		}
		return strings.Join(got, ","), nil
	}))
	s.work(worker.Config{}, greet.Do(doGreet))
	p.LoseReplies(20)
	want := make([]string, steps)
	for i := range steps {
		for k := range instances {
			if i == 0 {
				s.start("chain", fmt.Sprint("r-", k), fmt.Sprint(steps))
			}
			s.event("ping", fmt.Sprint("r-", k), fmt.Sprintf("%q", fmt.Sprint("e", i, "-")))
		}
		want[i] = fmt.Sprint("e", i, "-", i)
	}
	for k := range instances {
		d := s.ended(fmt.Sprint("r-", k))
		if got, err := author.Result(chain).Decode(d.Result); err != nil || got != strings.Join(want, ",") {
			t.Fatalf("r-%d: %q, %v, %v", k, got, err, d.Failure)
		}
	}
	if p.Lost() == 0 {
		t.Error("no reply was lost")
	}
	t.Logf("%d replies were lost", p.Lost())
	p.LoseReplies(0)
}
