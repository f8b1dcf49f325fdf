package orchestrator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// Trap: instances that are stuck starve the others. All of them become due again together, and a
// timer that is due later stands behind them on the agenda.
func TestThousandsOfStalledInstancesDoNotHoldUpANeighboursTimer(t *testing.T) {
	s := newStand(t)
	c := counters(t)
	const stalled = 2000
	part := s.conn.PartitionOf("first")
	body, err := history.Encode(&history.Started{Name: "nobody has this", Origin: history.Position{Seq: 1, Time: 5}, Execution: 1})
	if err != nil {
		t.Fatal(err)
	}
	seal, pipe := s.seal("first"), s.redis.Pipeline()
	for i := range stalled {
		id := fmt.Sprint("u-", i)
		pipe.RPush(s.ctx(), fmt.Sprintf("pawl:{default.%d}:in:%s", part, id), history.Element{ID: "!s1.5" + seal, At: 1000, Body: body}.Encode())
		pipe.ZAddArgs(s.ctx(), fmt.Sprintf("pawl:{default.%d}:wakeups", part), zNow(id))
	}
	if _, err := pipe.Exec(s.ctx()); err != nil {
		t.Fatal(err)
	}
	s.orchestrate(orchestrator.Config{Metrics: c.reg}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		return "", pawl.Sleep(ctx, 200*time.Millisecond)
	}))
	s.until("all are stalled", func() bool { return c.get("pawl_orchestrator_stalls_total") == stalled })
	begin := time.Now()
	var took []time.Duration
	for _, id := range s.together(40) {
		if time.Since(begin) > 4*time.Second { // the first pause of a stall is two seconds
			break
		}
		b := time.Now()
		s.start("hello", id, `"x"`)
		s.ended(id)
		took = append(took, time.Since(b))
	}
	if slices.Sort(took); took[len(took)/2] > 2500*time.Millisecond { // one may be slow because of the machine
		t.Errorf("the neighbours waited for the stalled ones: sleeps of 200 ms took %v", took)
	}
}
