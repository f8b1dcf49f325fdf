package orchestrator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// A job is an orchestration that calls one activity. It needs as many turns, each of which is one script, and as many inputs, tasks and events as
// such an orchestration in user code.
func TestJobCostsWhatAnOrchestrationWithOneActivityCosts(t *testing.T) {
	s, c := newHarness(t), counters(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: time.Hour, Metrics: c.reg}, hello.Do(callGreet))
	s.work(worker.Config{LeaseTTL: time.Minute}, greet.Do(doGreet))
	const instances = 10
	costs := func(orchestration, input string) (all []string) {
		turns, tasks := c.get("pawl_orchestrator_turns_total"), c.get("pawl_orchestrator_tasks_published_total")
		inputs := s.messages(s.subject(">"))
		for i := range instances {
			id := fmt.Sprintf("%s-%d", orchestration, i)
			s.start(orchestration, id, input)
			s.ended(id)
			for _, e := range s.history(id) {
				all = append(all, fmt.Sprintf("%T", e))
				if a, ok := e.(*history.ActivityScheduled); ok {
					all = append(all, fmt.Sprint(a.Attempt, a.Limit))
				}
			}
		}
		return append(all, fmt.Sprintf("%v turns, %v tasks, %d inputs", c.get("pawl_orchestrator_turns_total")-turns,
			c.get("pawl_orchestrator_tasks_published_total")-tasks, s.messages(s.subject(">"))-inputs))
	}
	want, got := costs("hello", `"x"`), costs("pawl.job", `{"activity":"greet","input":"x"}`)
	if !slices.Equal(got, want) {
		t.Errorf("a job costs %v, want %v", got, want)
	}
	if last, most := got[len(got)-1], fmt.Sprintf("%d turns, %d tasks, %d inputs", 2*instances, instances, instances); last != most {
		t.Errorf("%d jobs cost %s, want %s", instances, last, most)
	}
}
