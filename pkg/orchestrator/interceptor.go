package orchestrator

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/history"
)

// Turn describes a turn to an interceptor.
type Turn struct {
	Instance      string
	Execution     uint64
	Orchestration string
}

// Interceptor wraps the turns of an orchestrator: next runs the code of the instance until it waits, and must be called once, on the
// same goroutine. An interceptor cannot change what the code decides, for a turn may run again on another orchestrator. It is for
// measuring, labels of profiles, and logs. It counts against the turn limit.
type Interceptor func(next func(Turn)) func(Turn)

// aroundTurn composes the interceptors; nil without any.
func aroundTurn(all []Interceptor) func(id history.Identity, name string, run func()) {
	if len(all) == 0 {
		return nil
	}
	return func(id history.Identity, name string, run func()) {
		next := func(Turn) { run() }
		for _, around := range slices.Backward(all) {
			next = around(next)
		}
		next(Turn{Instance: id.Instance, Execution: id.Execution, Orchestration: name})
	}
}
