package orchestrator

import (
	"slices"

	"github.com/pawlrun/pawl/internal/effectid"
)

// Turn describes a turn to an interceptor.
type Turn struct {
	Instance      string
	Execution     uint64
	Orchestration string
}

// Interceptor wraps the turns of an orchestrator. next runs the code of the instance until it waits, and must be called exactly once, on the
// same goroutine. An interceptor is for metrics, profiler labels and logs. It must not affect what the code decides, because a turn may run
// again on another orchestrator. Its time counts against the turn limit.
type Interceptor func(next func(Turn)) func(Turn)

// aroundTurn composes the interceptors. It returns nil if there are none.
func aroundTurn(all []Interceptor) func(id effectid.Identity, name string, run func()) {
	if len(all) == 0 {
		return nil
	}
	return func(id effectid.Identity, name string, run func()) {
		next := func(Turn) { run() }
		for _, around := range slices.Backward(all) {
			next = around(next)
		}
		next(Turn{Instance: id.Instance, Execution: id.Execution, Orchestration: name})
	}
}
