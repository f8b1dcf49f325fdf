package replay_test

import (
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// Thousands of cancellations with the longest text would not fit into a commit, and a reason would make the instance fail.
func TestLongReasonIsCutInTheCancellationsOnly(t *testing.T) {
	d := replaytest.New(t, func(x *replay.Code) replay.Ending {
		f := x.Call(replay.Call{Activity: "work", Queue: "work"})
		_ = x.Wait(f, nil)
		_, err := f.Value()
		return replay.Ending{Failure: &history.Failure{Message: err.Error()}, Cancelled: true}
	}, replay.Options{})
	d.Start(history.Payload{})
	long := strings.Repeat("because ", 1000)
	made := d.Cancel("ops", long)
	c, ok := made[0].(*history.ActivityCancelRequested)
	if !ok || len(c.Text) > replay.MaxReason+10 || !strings.HasPrefix(c.Text, "because because") {
		t.Errorf("%+v", made[0])
	}
	for _, ev := range d.History {
		if r, ok := ev.(*history.CancelRequested); ok && r.Text != long {
			t.Errorf("the request has %d bytes", len(r.Text))
		}
	}
	d.CheckReplay()
}
