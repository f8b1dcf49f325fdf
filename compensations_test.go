package pawl_test

import (
	"slices"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestCompensationsRunInReverseOrderAlsoAfterACancellation(t *testing.T) {
	do, undo := pawl.NewActivity[int, int]("do"), pawl.NewActivity[int, int]("undo")
	trip := pawl.NewOrchestration[int, int]("trip") // of so many steps
	booked := func(ctx *pawl.Context, steps int) (_ int, err error) {
		var c pawl.Compensations
		defer c.Run(ctx, &err)
		for i := range steps {
			if _, err := do.Call(ctx, i); err != nil {
				return 0, err
			}
			c.Add(func(ctx *pawl.Context) error {
				_, err := undo.Call(ctx, i)
				return err
			})
		}
		return steps, nil
	}
	encode := func(n int) history.Payload {
		p, err := author.Input(do).Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, how := range []string{"done", "failed", "cancelled"} {
		d := replaytest.New(t, author.Program(trip.Do(booked)), replay.Options{})
		d.Start(encode(3))
		d.Complete(d.Only("do"), encode(0))
		d.Complete(d.Only("do"), encode(0))
		var undone []string
		switch how {
		case "done":
			d.Complete(d.Only("do"), encode(0))
		case "failed":
			d.Fail(d.Only("do"), history.Failure{Message: "no seat"})
		case "cancelled":
			d.Cancel("ops", "enough")
		}
		for how != "done" && len(undone) < 2 {
			s := d.Only("undo")
			undone = append(undone, string(d.History[s-1].(*history.ActivityScheduled).Payload.Data))
			if len(undone) == 1 { // a compensation that fails does not stop the others
				d.Fail(s, history.Failure{Message: "not undone"})
				continue
			}
			d.Complete(s, encode(0))
		}
		if how != "done" && !slices.Equal(undone, []string{"1", "0"}) {
			t.Errorf("%s: undone %q", how, undone)
		}
		_, completed := d.End().(*history.Completed)
		if completed != (how == "done") {
			t.Errorf("%s: %+v", how, d.End())
		}
		if f, ok := d.End().(*history.Failed); ok && f.Failure.Message != "no seat\nnot undone" {
			t.Errorf("%+v", f)
		}
		d.CheckReplay()
	}
}
