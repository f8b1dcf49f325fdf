package orchestrator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// Trap: stalled instances starve the others, because all of them become due again together, and a
// timer that is due later has a later wakeup.
func TestHundredsOfStalledInstancesDelayNoTimer(t *testing.T) {
	s := newHarness(t)
	c := counters(t)
	const stalled = 600 // more than two batches of due instances
	part := s.conn.PartitionOf("first")
	body, err := eventcodec.Encode(&history.Started{Name: "undeployed", Origin: history.Position{Seq: 1, Time: 5}, Execution: 1})
	if err != nil {
		t.Fatal(err)
	}
	seal, pipe := s.seal("first"), s.redis.Pipeline()
	for i := range stalled {
		id := fmt.Sprint("u-", i)
		pipe.RPush(s.ctx(), fmt.Sprintf("pawl:{%s.%d}:in:%s", s.ns, part, id), eventcodec.Element{ID: "!s1.5" + seal, At: 1000, Body: body}.Encode())
		pipe.ZAddArgs(s.ctx(), fmt.Sprintf("pawl:{%s.%d}:wakeups", s.ns, part), zNow(id))
	}
	if _, err := pipe.Exec(s.ctx()); err != nil {
		t.Fatal(err)
	}
	s.orchestrate(orchestrator.Config{Metrics: c.reg}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		return "", pawl.Sleep(ctx, 200*time.Millisecond)
	}))
	s.until("all are stalled", func() bool { return c.get("pawl_orchestrator_stalls_total") >= stalled })
	begin := time.Now()
	var delays []int64 // in ms, compared with an instance of another partition, in which none is stalled
	for _, id := range s.samePartition(12) {
		if time.Since(begin) > 4*time.Second { // the first pause of a stall is two seconds
			break
		}
		other := "other-" + id
		for s.conn.PartitionOf(other) == part {
			other += "-"
		}
		s.start("hello", id, `"x"`)
		s.start("hello", other, `"x"`)
		delays = append(delays, s.ended(id).Ended-s.ended(other).Ended)
	}
	if slices.Sort(delays); delays[len(delays)/2] > 1500 { // one may be slow because of the machine
		t.Errorf("the neighbors waited for the stalled instances: their sleeps ended later than others by (ms): %v", delays)
	}
}

// A filter selects stalled instances, in combination with other terms, for lists, counts and batches. It excludes instances that have resumed or
// ended.
func TestStalledInstancesAreFoundByAFilter(t *testing.T) {
	s := newHarness(t)
	parcels := pawl.NewOrchestration[string, int]("parcels").Do(keep)
	o := s.orchestrate(orchestrator.Config{}, keeper.Do(keep), parcels)
	for _, id := range []string{"k-1", "k-2"} {
		s.start("keeper", id, `""`)
	}
	s.start("parcels", "p-1", `""`)
	op := s.operator()
	counts := func(want uint64, where string) func() bool {
		return func() bool {
			n, err := op.Count(s.ctx(), client.CountOptions{Where: where})
			return err == nil && n.Count == want && !n.AtLeast
		}
	}
	s.until("all run", counts(3, "status = running"))
	s.stop(o)
	o = s.orchestrate(orchestrator.Config{}, parcels)
	for _, id := range []string{"k-1", "k-2", "p-1"} {
		s.event(proceed.Name(), id, `"go"`)
	}
	s.until("two are stalled", counts(2, "stalled = true"))
	for where, want := range map[string]uint64{
		"stalled = true and orchestration = keeper and status = running and started > -1h": 2,
		"stalled = true and orchestration = parcels":                                       0,
		"stalled = true and id starts k-2":                                                 1,
		"stalled = true and orchestration != parcels":                                      2, // compares records
		"stalled = true and id in (k-1, p-1)":                                              1,
	} {
		s.until(fmt.Sprintf("%s: %d", where, want), counts(want, where)) // a count may exceed its time on a slow machine
	}
	for d, err := range op.List(s.ctx(), client.ListOptions{}) {
		s.must(err)
		if stalled := strings.Contains(d.Stalled, "unregistered"); stalled != (d.Orchestration == "keeper") {
			t.Errorf("%s is listed with %q", d.Instance, d.Stalled)
		}
	}
	run, err := op.StartBatch(s.ctx(), "b-1", client.Batch{Verb: client.BatchTerminate, Where: "stalled = true and id != k-1"})
	s.must(err)
	if st, err := run.Result(s.ctx()); err != nil || st.Total != 1 || st.Sent != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if d := s.ended("k-2"); d.Status != "cancelled" {
		t.Errorf("%+v", d)
	}
	s.until("one is stalled", counts(1, "stalled = true"))
	s.stop(o)
	s.orchestrate(orchestrator.Config{}, keeper.Do(keep), parcels)
	s.until("none is stalled", counts(0, "stalled = true"))
}
