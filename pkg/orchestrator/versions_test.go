package orchestrator_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

func TestVersionsNameInstancesAndOrchestratorsWithTheirCode(t *testing.T) {
	s := newHarness(t)
	waits := pawl.NewOrchestration[int, int]("waits")
	code := func(version string) pawl.OrchestrationBinding {
		return waits.Do(func(ctx *pawl.Context, _ int) (int, error) {
			return pawl.NewEvent[int]("end").Receive(ctx)
		}, pawl.Version(version))
	}
	s.orchestrate(orchestrator.Config{Member: "a"}, code("1"))
	for _, id := range []string{"w-1", "w-2", "w-3"} {
		s.start("waits", id, "1")
		s.until(id+" runs", func() bool { return s.describe(id).Status == "running" })
	}
	s.event("end", "w-3", "1")
	s.ended("w-3")
	s.orchestrate(orchestrator.Config{Member: "b"}, code("1"), code("2"))
	c, err := client.New(s.ctx(), s.nats, client.Options{Namespace: s.ns})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.until("both orchestrators own partitions", func() bool {
		v, err := c.Versions(s.ctx())
		return err == nil && len(v.Orchestrators) == 2
	})
	got, err := c.Versions(s.ctx())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []client.VersionUse{
		{Orchestration: "waits", Version: "1", Instances: 2, Orchestrators: []string{"a", "b"}},
		{Orchestration: "waits", Version: "2", Orchestrators: []string{"b"}},
	} {
		if !slices.ContainsFunc(got.Versions, func(v client.VersionUse) bool {
			return v.Version == want.Version && v.Orchestration == want.Orchestration && v.Instances == want.Instances && slices.Equal(v.Orchestrators, want.Orchestrators)
		}) {
			t.Errorf("no %+v in %+v", want, got.Versions)
		}
	}
}

// TestTurnsGoToTheOrchestratorThatHasTheVersion simulates a rollout: an orchestrator of the previous build shares the namespace with one that
// has an additional version, and instances of that version are in the partitions of both.
func TestTurnsGoToTheOrchestratorThatHasTheVersion(t *testing.T) {
	s := newHarness(t)
	done := pawl.NewOrchestration[int, int]("done")
	code := func(version string) pawl.OrchestrationBinding {
		return done.Do(func(_ *pawl.Context, n int) (int, error) { return n, nil }, pawl.Version(version))
	}
	before := s.orchestrate(orchestrator.Config{Member: "before"}, code("1"))
	after := s.orchestrate(orchestrator.Config{Member: "after"}, code("1"), code("2"))
	s.until("both own partitions", func() bool { return len(before.Partitions()) > 0 && len(after.Partitions()) > 0 })
	ids := make([]string, 24)
	for i := range ids {
		ids[i] = fmt.Sprint("new-", i)
		s.publish(message.OutInput{
			Instance: ids[i], Kind: message.KindStart, Name: "done", Version: "2", Payload: history.Payload{Type: history.TypeJSON, Data: []byte("1")},
		})
	}
	for _, id := range ids {
		if d := s.ended(id); d.Status != "completed" {
			t.Errorf("%s: %s", id, d.Status)
		}
	}
	if len(before.Partitions()) == 0 {
		t.Error("the orchestrator that lacks the version has lost its partitions")
	}
}
