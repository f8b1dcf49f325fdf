package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// A stream without a leader, or a deleted one, accepts no tasks for a while. That must not delay them as much as
// a task that was lost silently.
func TestTaskThatCouldNotBePublishedIsRetriedBeforeReconciliation(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 5 * time.Minute}, hello.Do(callGreet))
	s.deleteTasks()
	const n = 20
	for i := range n {
		s.start("hello", fmt.Sprint("t-", i), `"you"`)
	}
	s.until("the stream exists again, with every task", func() bool {
		info, err := s.jetStream().StreamInfo(s.stream("TASKS"))
		return err == nil && info.State.LastSeq >= n
	})
	s.work(worker.Config{}, greet.Do(doGreet))
	for i := range n {
		if d := s.ended(fmt.Sprint("t-", i)); d.Status != "completed" {
			t.Errorf("%+v", d)
		}
	}
}
