package replay_test

import (
	"errors"
	"testing"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// A cancellation that arrived before the first turn of an execution is visible to its code from the start, also on replay.
func TestExecutionThatBeginsCancelledCannotContinueAsNew(t *testing.T) {
	program := func(x *replay.Code) replay.Ending {
		err := x.ContinueAsNew(history.Payload{}, "", nil)
		var c *cancel.Cancelled
		if !errors.As(err, &c) || c.By != "ops" || c.Reason != cancel.Requested {
			t.Errorf("ContinueAsNew returned %v", err)
			return replay.Ending{}
		}
		return replay.Ending{Failure: replay.CancelledFailure(c), Cancelled: true}
	}
	d := replaytest.New(t, program, replay.Options{Strict: true})
	d.Feed(&history.Started{Name: "loop", Execution: 2, Cancel: &history.CancelNote{At: 5, By: "ops"}})
	if !d.X.Ended() {
		t.Error("the execution has not ended")
	}
	if got, err := d.X.Apply(&history.CancelRequested{By: "ops"}); got != replay.DroppedEnded || err != nil {
		t.Errorf("the cancellation itself is %v, %v", got, err)
	}
}
