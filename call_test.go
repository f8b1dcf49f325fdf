package pawl_test

import (
	"errors"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestAttemptsOfACallShareItsKey(t *testing.T) {
	charge := pawl.NewActivity[int, int]("charge")
	once := pawl.NewOrchestration[pawl.None, int]("once")
	d := replaytest.New(t, author.Program(once.Do(func(ctx *pawl.Context, _ pawl.None) (int, error) {
		if _, err := charge.Call(ctx, 1); err != nil {
			return 0, err
		}
		return charge.Call(ctx, 1, pawl.Retry{Attempts: 3})
	})), replay.Options{})
	d.Start(history.Payload{})
	result, err := author.Result(charge).Encode(1)
	if err != nil {
		t.Fatal(err)
	}
	d.Complete(d.Only("charge"), result)
	for range 2 {
		d.Fail(d.Only("charge"), history.Failure{Message: "busy"})
		d.Fire()
	}
	d.Complete(d.Only("charge"), result)
	d.CheckReplay()
	keys, effects := map[string]int{}, map[string]bool{}
	for _, ev := range d.History {
		if s, ok := ev.(*history.ActivityScheduled); ok {
			keys[s.CallKey()]++
			effects[s.Effect] = true
		}
	}
	if len(keys) != 2 || len(effects) != 4 {
		t.Errorf("keys %v of the effects %v", keys, effects)
	}
	for _, n := range keys {
		if n != 1 && n != 3 {
			t.Errorf("keys %v", keys)
		}
	}
}

func TestErrDistinguishesCancellationOfTheCodeFromThatOfACall(t *testing.T) {
	slow := pawl.NewActivity[int, int]("slow")
	o := pawl.NewOrchestration[pawl.None, string]("o")
	d := replaytest.New(t, author.Program(o.Do(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		call := slow.Start(ctx, 1)
		call.Cancel("by hand")
		if _, err := call.Get(ctx); err == nil || pawl.Err(ctx) != nil {
			return "the call's", errors.Join(err, pawl.Err(ctx))
		}
		err := pawl.Sleep(ctx, 1e9)
		if own := pawl.Err(ctx); own == nil || !errors.Is(err, own) && err.Error() != own.Error() {
			return "not my own", err
		}
		return "ok", nil
	})), replay.Options{})
	d.Start(history.Payload{})
	d.Cancel("ops", "enough")
	end, ok := d.End().(*history.Completed)
	if !ok {
		t.Fatalf("%+v", d.End())
	}
	if got, err := author.Result(o).Decode(end.Result); err != nil || got != "ok" {
		t.Errorf("%q, %v", got, err)
	}
	d.CheckReplay()
}

func TestStartWithoutAnInputUsesTheZeroValue(t *testing.T) {
	type order struct{ Lines []string }
	o := pawl.NewOrchestration[order, int]("o")
	d := replaytest.New(t, author.Program(o.Do(func(ctx *pawl.Context, in order) (int, error) {
		return len(in.Lines) + int(pawl.Instance(ctx).Length), nil
	})), replay.Options{})
	d.Start(history.Payload{})
	end, ok := d.End().(*history.Completed)
	if !ok {
		t.Fatalf("%+v", d.End())
	}
	if got, err := author.Result(o).Decode(end.Result); err != nil || got != 1 {
		t.Errorf("%d, %v", got, err)
	}
}
