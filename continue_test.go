package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

type tally struct{ Rounds, Sum int }

var (
	counter = pawl.NewOrchestration[tally, *tally]("counter")
	total   = pawl.NewStatus[tally]()
)

func count(ctx *pawl.Context, t tally) (_ *tally, err error) {
	defer func() {
		if err != nil {
			panic("compensated although it continues")
		}
	}()
	for range 2 {
		n, err := moved.Receive(ctx)
		if err != nil {
			return nil, err
		}
		t.Sum += n
		if err := total.Set(ctx, t); err != nil {
			return nil, err
		}
	}
	if t.Rounds++; t.Rounds == 3 {
		return &t, nil
	}
	return counter.ContinueAsNew(ctx, t)
}

func TestContinueAsNewKeepsStatusAndParentAndRunsNoCompensation(t *testing.T) {
	d := replaytest.New(t, author.Program(counter.Do(count)), replay.Options{Strict: true})
	d.Feed(&history.Started{
		Name: "counter", Version: "7", Payload: must(author.Input(counter).Encode(tally{})), Origin: d.X.Identity().Origin,
		Parent: &history.Parent{Instance: "parent"},
	})
	for n := range 6 {
		if next, _ := d.X.Continued(); next != nil {
			if next.Version != "7" {
				t.Errorf("continues as version %q", next.Version)
			}
			d.Continue()
		}
		d.Send("moved", must(author.Value(moved).Encode(n)))
	}
	end, ok := d.End().(*history.Completed)
	if !ok || *must(author.Result(counter).Decode(end.Result)) != (tally{3, 15}) {
		t.Errorf("ended with %+v", d.End())
	}
	if p, version := d.X.Status(); version != 6 || must(author.Value(total).Decode(p)) != (tally{2, 15}) {
		t.Errorf("status %s, version %d", p.Data, version)
	}
	if id := d.X.Identity(); id.Execution != 2 || d.X.Parent().Instance != "parent" {
		t.Errorf("execution %d, parent %+v", id.Execution, d.X.Parent())
	}
	d.CheckReplay()
}

func TestContinueAsNewUsesTheRequestedVersion(t *testing.T) {
	for want, opts := range map[string][]pawl.ContinueOption{
		"1": nil, "2": {pawl.Version("2")}, "": {pawl.Latest},
	} {
		d := replaytest.New(t, author.Program(counter.Do(func(ctx *pawl.Context, t tally) (*tally, error) {
			return counter.ContinueAsNew(ctx, t, opts...)
		})), replay.Options{})
		d.Feed(&history.Started{Name: "counter", Version: "1", Payload: must(author.Input(counter).Encode(tally{}))})
		if next, _ := d.X.Continued(); next == nil || next.Version != want {
			t.Errorf("continues as %+v, want version %q", next, want)
		}
		d.CheckReplay()
	}
}

func TestContinueAsNewIgnoresTheResult(t *testing.T) {
	odd := pawl.NewOrchestration[int, float64]("odd")
	d := replaytest.New(t, author.Program(odd.Do(func(ctx *pawl.Context, n int) (float64, error) {
		_, err := odd.ContinueAsNew(ctx, n)
		return math.NaN(), err // does not encode
	})), replay.Options{})
	d.Feed(&history.Started{Name: "odd", Payload: must(author.Input(odd).Encode(1))})
	if next, _ := d.X.Continued(); next == nil {
		t.Errorf("ended with %+v", d.End())
	}
}

func TestContinueAsNewRejectsAnotherOrchestration(t *testing.T) {
	other := pawl.NewOrchestration[int, int]("other")
	r := orchestrate(t, func(ctx *pawl.Context, n int) (int, error) { return other.ContinueAsNew(ctx, n) }, 1)
	if err := r.failure(); err.Error() != "pawl: an instance of orchestration under-test cannot continue as other; start it as a child, or detached" {
		t.Error(err)
	}
}

func TestCancelledInstanceDoesNotContinueAsNew(t *testing.T) {
	for _, early := range []bool{true, false} {
		d := replaytest.New(t, author.Program(counter.Do(func(ctx *pawl.Context, in tally) (*tally, error) {
			if early {
				return continueOnce(ctx, in)
			}
			_, err := moved.Receive(ctx)
			if !errors.Is(err, context.Canceled) {
				return nil, fmt.Errorf("not cancelled: %w", err)
			}
			return counter.ContinueAsNew(pawl.Detach(ctx), in)
		})), replay.Options{})
		d.Feed(&history.Started{Name: "counter", Payload: must(author.Input(counter).Encode(tally{}))})
		d.Cancel("Ada", "enough")
		if early {
			d.Send("moved", must(author.Value(moved).Encode(1)))
		}
		end, ok := d.End().(*history.Cancelled)
		if !ok || end.By != "Ada" {
			t.Fatalf("ended with %+v", d.End())
		}
		var c *pawl.Cancelled
		if err := (&pawl.Failure{Failure: end.Failure}); !errors.As(err, &c) || c.By != "Ada" || c.Text != "enough" {
			t.Errorf("failed with %v", err)
		}
		d.CheckReplay()
		d.CheckRecord()
	}
}

// continueOnce continues as new once.
func continueOnce(ctx *pawl.Context, in tally) (*tally, error) {
	defer func() { _, _ = moved.Receive(pawl.Detach(ctx)) }()
	return counter.ContinueAsNew(ctx, in)
}

func TestUnreadEventsAreKeptForTheNextExecution(t *testing.T) {
	d := replaytest.New(t, author.Program(counter.Do(func(ctx *pawl.Context, in tally) (*tally, error) {
		early, err := moved.Drain(ctx)
		if err != nil || in.Rounds > 0 {
			return &tally{Rounds: in.Rounds, Sum: len(early)}, err
		}
		one, two := moved.Next(ctx), moved.Next(ctx)
		if _, err := pawl.Any(ctx, two); err != nil {
			return nil, err
		}
		if _, err := two.Get(ctx); err != nil {
			return nil, err
		}
		if !one.Ready() {
			return nil, errors.New("the first event was not received")
		}
		return counter.ContinueAsNew(ctx, tally{Rounds: 1})
	})), replay.Options{})
	d.Feed(&history.Started{Name: "counter", Payload: must(author.Input(counter).Encode(tally{}))})
	d.Observe()
	for _, n := range []int{10, 11} {
		d.Send("moved", must(author.Value(moved).Encode(n)))
	}
	_, unread := d.X.Continued()
	if len(unread) != 1 || must(author.Value(moved).Decode(unread[0].Payload)) != 10 {
		t.Fatalf("unread %+v", unread)
	}
}

func TestStatusIsTheLastValueSet(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (bool, error) {
		tooLarge := pawl.NewStatus[[]byte]().Set(ctx, make([]byte, 600<<10))
		noFunc := pawl.NewStatus[func()]().Set(ctx, func() {})
		return errors.Is(tooLarge, pawl.ErrTooLarge) && noFunc != nil, errors.Join(total.Set(ctx, tally{1, 2}), total.Set(ctx, tally{3, 4}))
	}, pawl.None{})
	p, version := r.X.Status()
	if got, err := author.Value(total).Decode(p); version != 2 || got != (tally{3, 4}) || err != nil || !r.result() {
		t.Errorf("status %+v, version %d, %v", got, version, err)
	}
	again, err := author.Value(total).Encode(tally{3, 4})
	if err != nil || !slices.Equal(again.Data, p.Data) {
		t.Errorf("encodes as %s, %v", again.Data, err)
	}
}
