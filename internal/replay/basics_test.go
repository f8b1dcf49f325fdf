package replay_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

const lostSelect = cancel.LostSelect

var errCancelled = &cancel.Cancelled{}

func TestAChainIsInputsAndDecisionsInOrder(t *testing.T) {
	d := drive(t, func(x *replay.Execution) (string, error) {
		a, err := call(x, "a", "1")
		if err != nil {
			return "", err
		}
		return call(x, "b", a+"2")
	})
	d.Start(text("in"))
	d.Complete(d.Only("a"), text("A"))
	d.Complete(d.Only("b"), text("B"))
	wantKinds(t, d.History, history.KindStarted, history.KindActivityScheduled, history.KindActivityCompleted,
		history.KindActivityScheduled, history.KindActivityCompleted, history.KindCompleted)
	wantResult(t, d, "B")
}
