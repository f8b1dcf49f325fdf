package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Trap: a message that anybody may send and that frees something.
func TestForgedDoorbellFreesNoSlot(t *testing.T) {
	s, stile, met := newStand(t), newTurnstile(), counters(t)
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{Metrics: met.reg}, hello.Do(func(ctx *pawl.Context, who string) (string, error) { return limited.Call(ctx, who) }))
	s.work(worker.Config{}, limited.Do(stile.do))
	s.oneWaits(stile)
	scheduled := s.history("h-0")[1].(*history.ActivityScheduled) //nolint:forcetypeassert // the only call
	body, err := history.Encode(&history.ActivityCompleted{Scheduled: scheduled.ID, Result: scheduled.Payload, Worker: "mallory", Claims: 1})
	if err != nil {
		t.Fatal(err)
	}
	element := history.Element{ID: "a" + scheduled.Effect + ".token", At: time.Now().UnixMilli(), Body: body}.Encode()
	forged := []queue.Bell{{Instance: "h-0", Effect: scheduled.Effect, Element: element, Proof: "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, {Instance: "h-0", Effect: scheduled.Effect}}
	if err := s.conn.Ring(s.conn.PartitionOf("h-0"), forged); err != nil {
		t.Fatal(err)
	}
	s.until("both are dropped", func() bool { return met.get("pawl_orchestrator_doorbells_forged_total") == 2 })
	if st := s.stats("limited"); st.Active != 1 || st.QueueLength != 1 || met.get("pawl_orchestrator_conflicts_total") != 0 {
		t.Errorf("%+v, %v conflicts", st, met.get("pawl_orchestrator_conflicts_total"))
	}
	close(stile.end)
	s.ended("h-0")
	if d := s.ended("h-1"); d.Status != "completed" || stile.most != 1 {
		t.Fatalf("%+v, at most %d", d, stile.most)
	}
	s.quiet("limited")
}

func TestDoorbellsForUnknownInstancesCostRedisNothing(t *testing.T) {
	const messages, each = 100, 500
	s, met := newStand(t), counters(t)
	s.orchestrate(orchestrator.Config{Metrics: met.reg}, hello.Do(callGreet))
	bells := make([]queue.Bell, each)
	for m := 0; met.get("pawl_orchestrator_doorbells_forged_total") < messages*each; m++ {
		for i := range bells {
			bells[i] = queue.Bell{Instance: fmt.Sprintf("unknown-%d-%d", m, i), Effect: "e", Element: []byte("a.b\n1\n\x90"), Proof: "p"}
		}
		if err := s.conn.Ring(m%s.conn.Partitions(), bells); err != nil {
			t.Fatal(err)
		}
	}
	if loads, looks := met.get("pawl_orchestrator_loads_total"), met.get("pawl_orchestrator_looks_total"); loads+looks != 0 {
		t.Errorf("%v loads, %v looks", loads, looks)
	}
}
