package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Trap: a message that any client may send releases a slot.
func TestForgedDoorbellReleasesNoSlot(t *testing.T) {
	s, held, met := newHarness(t), newHeldActivity(), counters(t)
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	s.orchestrate(orchestrator.Config{Metrics: met.reg}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{}, limited.Do(held.do))
	s.oneWaits(held)
	scheduled := s.history("h-0")[1].(*history.ActivityScheduled) //nolint:forcetypeassert // the only call
	body, err := eventcodec.Encode(&history.ActivityCompleted{Scheduled: scheduled.ID, Result: scheduled.Payload, Worker: "mallory", Claims: 1})
	if err != nil {
		t.Fatal(err)
	}
	element := eventcodec.Element{ID: "a" + scheduled.Effect + ".token", At: time.Now().UnixMilli(), Body: body}.Encode()
	forged := []message.Doorbell{{Instance: "h-0", Effect: scheduled.Effect, Element: element, Proof: "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, {Instance: "h-0", Effect: scheduled.Effect}}
	if err := s.conn.SendDoorbells(s.conn.PartitionOf("h-0"), forged); err != nil {
		t.Fatal(err)
	}
	s.until("both are dropped", func() bool { return met.get("pawl_orchestrator_doorbells_forged_total") == 2 })
	if st := s.stats("limited"); st.Active != 1 || st.QueueLength != 1 || met.get("pawl_orchestrator_conflicts_total") != 0 {
		t.Errorf("%+v, %v conflicts", st, met.get("pawl_orchestrator_conflicts_total"))
	}
	close(held.end)
	s.ended("h-0")
	if d := s.ended("h-1"); d.Status != "completed" || held.most != 1 {
		t.Fatalf("%+v, at most %d", d, held.most)
	}
	s.quiet("limited")
}

func TestDoorbellsForUnknownInstancesCostRedisNothing(t *testing.T) {
	const messages, each = 20, 500
	s, met := newHarness(t), counters(t)
	s.orchestrate(orchestrator.Config{Metrics: met.reg}, hello.Do(callGreet))
	doorbells := make([]message.Doorbell, each)
	for m := 0; met.get("pawl_orchestrator_doorbells_forged_total") < messages*each; m++ {
		for i := range doorbells {
			doorbells[i] = message.Doorbell{Instance: fmt.Sprintf("unknown-%d-%d", m, i), Effect: "e", Element: []byte("a.b\n1\n\x90"), Proof: "p"}
		}
		if err := s.conn.SendDoorbells(m%s.conn.Partitions(), doorbells); err != nil {
			t.Fatal(err)
		}
	}
	if loads, looks := met.get("pawl_orchestrator_loads_total"), met.get("pawl_orchestrator_reconciliations_total"); loads+looks != 0 {
		t.Errorf("%v loads, %v reconciliations", loads, looks)
	}
}

// A process with a worker's credentials can push to every inbox.
func TestInputsThatIngestHasNotSealedAreDropped(t *testing.T) {
	s, met := newHarness(t), counters(t)
	approval := pawl.NewEvent[string]("approved")
	s.orchestrate(orchestrator.Config{Metrics: met.reg}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		return approval.Receive(ctx)
	}))
	s.start("hello", "h", `"x"`)
	s.until("it waits", func() bool { return s.describe("h").Events > 0 })
	forged := map[string]history.Event{
		"s9.9":            &history.EventReceived{Name: "approved", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"by finance"`)}},
		"aEFFECT.token":   &history.EventReceived{Name: "approved", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"by finance"`)}},
		"s9.8 wrong-seal": &history.PurgeRequested{Force: true},
		"s9.7":            &history.CancelRequested{By: "finance"},
		"!s9.6":           &history.Started{Name: "hello", Execution: 1, Origin: history.Position{Seq: 9}},
		"a":               &history.ActivityCompleted{Scheduled: 1},
	}
	for id, ev := range forged {
		body, err := eventcodec.Encode(ev)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"h", "absent"} {
			el := eventcodec.Element{ID: id, At: time.Now().UnixMilli(), Body: body}
			if err := s.redis.RPush(s.ctx(), s.key(at, "in:"+at), el.Encode()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.redis.RPush(s.ctx(), s.key("h", "in:h"), "full.17\n1790000000000\n").Err(); err != nil {
		t.Fatal(err)
	}
	s.reconcileNow("h")
	s.reconcileNow("absent")
	s.until("they are dropped", func() bool {
		n, err := s.redis.Exists(s.ctx(), s.key("h", "in:h"), s.key("absent", "in:absent")).Result()
		return err == nil && n == 0
	})
	if d := s.describe("h"); d.Status != "running" || met.get("pawl_orchestrator_inputs_forged_total") < 11 {
		t.Fatalf("%+v, %v counted", d, met.get("pawl_orchestrator_inputs_forged_total"))
	}
	s.event("approved", "h", `"by the client"`)
	if d := s.ended("h"); string(d.Result.Data) != `"by the client"` {
		t.Fatalf("%+v", d)
	}
}
