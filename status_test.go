package pawl_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// currentTotal returns the current status.
func currentTotal(ctx *pawl.Context) string {
	v, ok, err := total.Get(ctx)
	return fmt.Sprint(v, ok, err)
}

func TestStatusGetReturnsTheLastValue(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) ([]string, error) {
		got := []string{currentTotal(ctx)}
		if err := total.Set(ctx, tally{1, 2}); err != nil {
			return nil, err
		}
		got = append(got, currentTotal(ctx))
		if _, err := moved.Receive(ctx); err != nil {
			return nil, err
		}
		got = append(got, currentTotal(ctx))
		if err := total.Clear(ctx); err != nil {
			return nil, err
		}
		got = append(got, currentTotal(ctx))
		_, _, err := pawl.NewStatus[string]().Get(ctx)
		return got, err
	}, pawl.None{})
	r.Send("moved", must(author.Value(moved).Encode(1)))
	if got := fmt.Sprint(r.result()); got != "[{0 0} false <nil> {1 2} true <nil> {1 2} true <nil> {0 0} false <nil>]" {
		t.Error(got)
	}
	if p, version := r.X.Status(); p.Type != "" || version != 2 {
		t.Errorf("the status is %+v, version %d", p, version)
	}
}

func TestNamedStatusesAreIndependent(t *testing.T) {
	names := make([]pawl.Status[int], eventcodec.MaxStatuses)
	for i := range names {
		names[i] = pawl.NewNamedStatus[int](fmt.Sprintf("s%d", i))
	}
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		err := total.Set(ctx, tally{1, 2})
		for i, s := range names {
			err = errors.Join(err, s.Set(ctx, i))
		}
		err = errors.Join(err, names[0].Clear(ctx), names[1].Set(ctx, 7))
		one, ok, err2 := names[1].Get(ctx)
		zero, cleared, err3 := names[0].Get(ctx)
		ninth := pawl.NewNamedStatus[int]("ninth").Set(ctx, 9)
		bad := pawl.NewNamedStatus[int]("a b").Set(ctx, 9)
		return fmt.Sprint(currentTotal(ctx), one, ok, zero, cleared, ninth != nil, errors.Is(bad, pawl.ErrBadName)), errors.Join(err, err2, err3)
	}, pawl.None{})
	if got := r.result(); got != "{1 2} true <nil>7 true 0 false true true" {
		t.Error(got)
	}
	p, version := r.X.Status()
	all, err := eventcodec.SplitStatus(p, version+100) // the record counts differently
	if err != nil || version != 11 || len(all) != 9 {
		t.Fatal(len(all), version, err)
	}
	if all[0].Version != 101 || all[1].Version != 110 || !all[1].Cleared() || all[2].Version != 111 || all[8].Version != 109 {
		t.Errorf("%+v", all)
	}
}

func TestUndecodableStatusIsAnError(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		if err := pawl.NewStatus[string]().Set(ctx, "text"); err != nil {
			return "", err
		}
		_, ok, err := total.Get(ctx)
		return fmt.Sprint(ok, errors.Is(err, pawl.ErrUndecodable)), nil
	}, pawl.None{})
	if got := r.result(); got != "true true" {
		t.Error(got)
	}
}

// Each execution reads the values left by earlier executions, even if it has set none itself, and a replay reads the same.
func TestStatusIsReadAndClearedAcrossExecutions(t *testing.T) {
	d := replaytest.New(t, author.Program(counter.Do(func(ctx *pawl.Context, in tally) (*tally, error) {
		before := currentTotal(ctx)
		switch in.Rounds {
		case 0:
			if err := total.Set(ctx, tally{Sum: 7}); err != nil {
				return nil, err
			}
		case 2:
			if err := total.Clear(ctx); err != nil {
				return nil, err
			}
		case 4:
			return &in, nil
		}
		if want := map[int]string{0: "{0 0} false <nil>", 1: "{0 7} true <nil>", 2: "{0 7} true <nil>", 3: "{0 0} false <nil>"}[in.Rounds]; before != want {
			return nil, fmt.Errorf("round %d reads %q, not %q", in.Rounds, before, want)
		}
		in.Rounds++
		return counter.ContinueAsNew(ctx, in)
	})), replay.Options{Strict: true})
	d.Feed(&history.Started{Name: "counter", Payload: must(author.Input(counter).Encode(tally{}))})
	for range 4 {
		d.Continue()
	}
	if _, ok := d.End().(*history.Completed); !ok {
		t.Fatalf("ended with %+v", d.End())
	}
	d.CheckReplay()
	if p, version := d.X.Status(); p.Type != "" || version != 2 {
		t.Errorf("the status is %+v, version %d", p, version)
	}
}

func TestStatusIsReadAndClearedInACancelledInstance(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		if err := total.Set(ctx, tally{1, 2}); err != nil {
			return "", err
		}
		_, cancelled := moved.Receive(ctx)
		before := currentTotal(ctx)
		cleared := total.Clear(ctx)
		return fmt.Sprint(errors.Is(cancelled, pawl.Err(ctx)), before, cleared, currentTotal(ctx)), nil
	}, pawl.None{})
	r.Cancel("Ada", "enough")
	if got := r.result(); got != "true{1 2} true <nil><nil>{0 0} false <nil>" {
		t.Error(got)
	}
}
