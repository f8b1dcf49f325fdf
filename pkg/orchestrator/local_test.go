package orchestrator_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

// With a worker in the process of the orchestrator, the commit already claims the activity, which takes two scripts and no message.
func TestActivityInTheProcessOfItsOwnerTakesTwoScriptsAndNoMessage(t *testing.T) {
	local := queue.NewLocal()
	countChainOf(t, greet, costs{scripts: 2.05, messages: 0.1}, orchestrator.Config{ReconcileInterval: 10 * time.Second, Local: local}, worker.Config{LeaseTTL: 10 * time.Second, Local: local})
}
