package orchestrator_test

import (
	"testing"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// TestUpdateIsAcceptedWithoutAnyOrchestrator holds that an update with a PubAck is durable: it is executed once an orchestrator runs.
func TestUpdateIsAcceptedWithoutAnyOrchestrator(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.stop(s.orchestrate(orchestrator.Config{}, ledger.Do(account))) // it creates the streams
	c := s.client()
	if _, err := client.Start(s.ctx(), c, ledger, "u-1", sum{}); err != nil {
		t.Fatal(err)
	}
	u, err := client.SendUpdate(s.ctx(), c, plus, "u-1", 2)
	if err != nil {
		t.Fatalf("not accepted: %v", err)
	}
	if rec, err := s.store.Record(s.ctx(), s.conn.PartitionOf("u-1"), "u-1"); rec != nil || err != nil {
		t.Fatalf("an owner has applied it: %+v, %v", rec, err)
	}
	s.orchestrate(orchestrator.Config{}, ledger.Do(account))
	if out, err := u.Answer(s.ctx()); err != nil || out != (sum{2, 1}) {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestUpdateIsAnsweredAgainWhenRedisLosesItsLastWrites holds that inbox, history and answers are rolled back together. An update that Redis has lost,
// with its answer, is executed once more on the restored state, and its repeat receives that answer. An update that is not lost is not executed again.
func TestUpdateIsAnsweredAgainWhenRedisLosesItsLastWrites(t *testing.T) {
	t.Parallel()
	s := newOwnHarness(t)
	s.orchestrate(orchestrator.Config{}, ledger.Do(account))
	c := s.client()
	if out, err := client.UpdateWithStart(s.ctx(), c, ledger, "u-1", sum{}, plus, 2, client.UpdateID("kept")); err != nil || out != (sum{2, 1}) {
		t.Fatalf("%+v, %v", out, err)
	}
	before := s.snapshot()
	if out, err := client.Update(s.ctx(), c, plus, "u-1", 2, client.UpdateID("lost")); err != nil || out != (sum{4, 2}) {
		t.Fatalf("%+v, %v", out, err)
	}
	s.rollBack(before)
	for _, repeat := range []struct {
		id   string
		want sum
	}{{"lost", sum{4, 2}}, {"kept", sum{2, 1}}, {"lost", sum{4, 2}}} {
		if out, err := client.Update(s.ctx(), c, plus, "u-1", 2, client.UpdateID(repeat.id)); err != nil || out != repeat.want {
			t.Errorf("repeat of the %s update: %+v, %v", repeat.id, out, err)
		}
	}
	if n := s.count("u-1", history.KindUpdateReceived); n != 2 {
		t.Errorf("%d updates are executed", n)
	}
}
