package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

type parcel struct {
	To     string
	Weight int
}

var (
	ship    = pawl.NewOrchestration[parcel, string]("ship")
	errLost = pawl.NewError("lost")
	moved   = pawl.NewEvent[int]("moved")
)

func TestChildCallReturnsItsResult(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, in parcel) (string, error) {
		return ship.Call(ctx, in, pawl.ID("parcel-7"), pawl.Version("2"))
	}, parcel{"Rome", 3})
	c := r.OnlyChild()
	if in := must(author.Input(ship).Decode(c.Payload)); c.Instance != "parcel-7" || c.Version != "2" || c.Name != "ship" || c.Abandon || in.Weight != 3 {
		t.Errorf("started %+v", c)
	}
	answerChild(r.Driver, ship, "delivered")
	if got := r.result(); got != "delivered" {
		t.Error(got)
	}
}

func TestChildrenWithoutAnIDHaveDerivedIDs(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) ([]string, error) {
		return pawl.All(ctx, ship.Start(ctx, parcel{}), ship.Start(ctx, parcel{}, pawl.Abandon()))
	}, pawl.None{})
	var ids []string
	for _, id := range r.X.Children() {
		c := r.History[id-1].(*history.ChildScheduled)
		if ids = append(ids, c.Instance); c.Version != "" || c.Abandon != (len(ids) == 2) || pawl.ValidateID(c.Instance) != nil {
			t.Errorf("started %+v", c)
		}
	}
	if len(ids) != 2 || ids[0] == ids[1] || !strings.HasPrefix(ids[0], "order-42~0-2-") {
		t.Error(ids)
	}
}

func TestFailureOfAChildMatchesItsSentinels(t *testing.T) {
	for _, c := range []struct {
		failure *history.Failure
		is      error
	}{
		{author.ToFailure(fmt.Errorf("in the alps: %w", errLost)), errLost},
		{&history.Failure{Code: history.CodeIDTaken, Message: "another instance has it"}, pawl.ErrIDTaken},
		{&history.Failure{Code: history.CodeDiverged, Message: "not what it was"}, pawl.ErrDiverged},
		{author.ToFailure(&pawl.Cancelled{Reason: cancel.Requested, By: "Ada"}), context.Canceled},
	} {
		r := orchestrate(t, func(ctx *pawl.Context, in parcel) (string, error) {
			_, err := ship.Call(ctx, in)
			var cancelled *pawl.Cancelled
			if c.is == context.Canceled && (!errors.As(err, &cancelled) || cancelled.By != "Ada") {
				return "", fmt.Errorf("a cancelled child returned %w", err)
			}
			return "", fmt.Errorf("ship: %w", err)
		}, parcel{})
		r.FailChild(r.OnlyChild().ID, *c.failure)
		if err := r.failure(); !errors.Is(err, c.is) || r.End().Kind() != history.KindFailed {
			t.Errorf("%v is not %v, and ended with %T", err, c.is, r.End())
		}
	}
}

func TestInvalidOptionIsTheErrorOfTheCall(t *testing.T) {
	bad := pawl.NewOrchestration[parcel, string]("no spaces")
	for _, c := range []struct {
		start func(*pawl.Context) error
		is    error
	}{
		{func(ctx *pawl.Context) error { _, err := ship.Call(ctx, parcel{}, pawl.ID("no spaces")); return err }, pawl.ErrBadID},
		{func(ctx *pawl.Context) error { _, err := ship.Call(ctx, parcel{}, pawl.ID("")); return err }, pawl.ErrBadID},
		{func(ctx *pawl.Context) error {
			_, err := ship.Call(ctx, parcel{}, pawl.Version("no spaces"))
			return err
		}, pawl.ErrBadName},
		{func(ctx *pawl.Context) error { _, err := bad.Call(ctx, parcel{}); return err }, pawl.ErrBadName},
		{func(ctx *pawl.Context) error { return ship.StartDetached(ctx, "no spaces", parcel{}) }, pawl.ErrBadID},
		{func(ctx *pawl.Context) error { return ship.StartDetached(ctx, "", parcel{}) }, pawl.ErrBadID},
		{func(ctx *pawl.Context) error {
			return ship.StartDetached(ctx, "p", parcel{}, pawl.Version("no spaces"))
		}, pawl.ErrBadName},
		{func(ctx *pawl.Context) error { return bad.StartDetached(ctx, "p", parcel{}) }, pawl.ErrBadName},
		{func(ctx *pawl.Context) error { return moved.Send(ctx, "no spaces", 1) }, pawl.ErrBadID},
		{func(ctx *pawl.Context) error { return pawl.NewEvent[int]("no spaces").Send(ctx, "p", 1) }, pawl.ErrBadName},
		{func(ctx *pawl.Context) error { return pawl.SendOrStart(ctx, ship, "no spaces", parcel{}, moved, 1) }, pawl.ErrBadID},
		{func(ctx *pawl.Context) error { return pawl.SendOrStart(ctx, bad, "p", parcel{}, moved, 1) }, pawl.ErrBadName},
		{func(ctx *pawl.Context) error {
			return pawl.SendOrStart(ctx, ship, "p", parcel{}, pawl.NewEvent[int]("no spaces"), 1)
		}, pawl.ErrBadName},
		{func(ctx *pawl.Context) error {
			return pawl.SendOrStart(ctx, ship, "p", parcel{}, moved, 1, pawl.Version("no spaces"))
		}, pawl.ErrBadName},
		{func(ctx *pawl.Context) error { _, err := bad.ContinueAsNew(ctx, parcel{}); return err }, pawl.ErrBadName},
		{func(ctx *pawl.Context) error {
			return ship.StartDetached(ctx, "p", parcel{To: strings.Repeat("x", 600<<10)})
		}, pawl.ErrTooLarge},
	} {
		var got error
		r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (int, error) {
			got = c.start(ctx)
			return 0, nil
		}, pawl.None{})
		if r.result(); !errors.Is(got, c.is) || len(r.History) != 2 {
			t.Errorf("%v is not %v, and recorded %d events", got, c.is, len(r.History))
		}
	}
}

func TestChildThatLosesASelectIsCancelled(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (bool, error) {
		child := ship.Start(ctx, parcel{}, pawl.Abandon())
		if _, err := pawl.Select(ctx, child, pawl.After(ctx, time.Hour)); err != nil {
			return false, err
		}
		_, err := child.Get(ctx)
		return errors.Is(err, &pawl.Cancelled{Reason: cancel.LostSelect}), nil
	}, pawl.None{})
	made := r.Fire()
	if c, ok := made[0].(*history.ChildCancelRequested); !ok || c.Scheduled != 2 || !r.result() {
		t.Errorf("made %+v", made[0])
	}
}

func TestChildTimesOutAfterWithin(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, in parcel) (string, error) {
		return ship.Call(ctx, in, pawl.Within(time.Minute))
	}, parcel{})
	r.Fire()
	if err := r.failure(); !errors.Is(err, pawl.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestDetachedStartIsRecordedAndNotAwaited(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, in parcel) (string, error) {
		return "done", ship.StartDetached(ctx, "parcel-7", in, pawl.Version("2"))
	}, parcel{"Rome", 3})
	c, ok := r.History[1].(*history.ChildScheduled)
	if !ok || !c.Detached || c.Instance != "parcel-7" || c.Version != "2" || r.result() != "done" {
		t.Errorf("started %+v", c)
	}
}

func TestSendRecordsAnEventForAnotherInstance(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, n int) (int, error) { return n, moved.Send(ctx, "parcel-7", n) }, 7)
	e, ok := r.History[1].(*history.EventSent)
	if !ok || e.Instance != "parcel-7" || e.Name != "moved" || must(author.Value(moved).Decode(e.Payload)) != 7 || r.result() != 7 {
		t.Errorf("sent %+v", e)
	}
}

func TestReceiveWithinWithdrawsItsWaitAfterTheTimeout(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		var received []string
		for {
			n, ok, err := moved.ReceiveWithin(ctx, time.Minute)
			if received = append(received, fmt.Sprint(n, ok, errors.Is(err, pawl.ErrUndecodable))); len(received) == 5 {
				return fmt.Sprint(received), nil
			}
		}
	}, pawl.None{})
	r.Fire()
	r.Send("moved", must(author.Value(moved).Encode(1)))
	r.Send("moved", history.Payload{Type: history.TypeJSON, Data: []byte(`"north"`)})
	r.Fire()
	r.Send("moved", must(author.Value(moved).Encode(2)))
	if got := r.result(); got != "[0 false false 1 true false 0 true true 0 false false 2 true false]" {
		t.Error(got)
	}
}

func TestReceiveWithinOfAnArrivedEventSetsNoTimer(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (int, error) {
		if _, err := moved.Receive(ctx); err != nil {
			return 0, err
		}
		if err := pawl.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		n, ok, err := moved.ReceiveWithin(ctx, time.Hour)
		if !ok || err != nil {
			return 0, fmt.Errorf("no event received: %w", err)
		}
		_, ok, err = moved.ReceiveWithin(ctx, 0)
		if ok || err != nil {
			return 0, fmt.Errorf("an event was received: %w", err)
		}
		return n, nil
	}, pawl.None{})
	r.Send("moved", must(author.Value(moved).Encode(1)))
	r.Send("moved", must(author.Value(moved).Encode(2)))
	if made := r.Fire(); len(made) != 0 {
		t.Errorf("made %d decisions", len(made))
	}
	if made := r.Observe(); len(made) != 1 || r.result() != 2 {
		t.Errorf("made %d decisions", len(made))
	}
}

func TestReceiveInACancelledInstanceConsumesNoEvent(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		_, waited, err1 := moved.ReceiveWithin(ctx, time.Hour)
		_, again, err2 := moved.ReceiveWithin(ctx, time.Hour)
		_, err3 := moved.Drain(ctx)
		sent := moved.Send(ctx, "i", 1)
		n, ok, err := moved.ReceiveWithin(pawl.Detach(ctx), time.Hour)
		return fmt.Sprint(waited, again, n, ok, err), errors.Join(errors.New("all"), err1, err2, err3, sent)
	}, pawl.None{})
	r.Cancel("me", "enough")
	r.Send("moved", must(author.Value(moved).Encode(7)))
	if err := r.failure(); strings.Count(err.Error(), "enough") != 4 {
		t.Error(err)
	}
}

func TestDrainReceivesAllArrivedEventsInOneTurn(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) ([]int, error) {
		if err := pawl.Sleep(ctx, time.Hour); err != nil {
			return nil, err
		}
		some, err := moved.Drain(ctx)
		if !errors.Is(err, pawl.ErrUndecodable) {
			return nil, fmt.Errorf("drained %v: %w", some, err)
		}
		more, err := moved.Drain(ctx)
		none, noErr := moved.Drain(ctx)
		return slices.Concat(some, more, none), errors.Join(err, noErr)
	}, pawl.None{})
	for n := range 3 {
		r.Send("moved", must(author.Value(moved).Encode(n)))
	}
	r.Send("moved", history.Payload{})
	r.Send("moved", must(author.Value(moved).Encode(4)))
	r.Fire()
	r.Observe()
	if got := r.result(); !slices.Equal(got, []int{0, 1, 2, 4}) {
		t.Error(got)
	}
}

func TestSendOrStartRecordsEventAndStartTogether(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, n int) (int, error) {
		return n, pawl.SendOrStart(ctx, ship, "parcel-7", parcel{To: "Ulm"}, moved, n, pawl.Version("2"))
	}, 7)
	r.result()
	e, ok := r.History[1].(*history.EventSent)
	if !ok || e.Instance != "parcel-7" || e.Name != moved.Name() || e.Effect == "" || e.Start == nil || e.Start.Name != ship.Name() || e.Start.Version != "2" {
		t.Fatalf("recorded %+v", r.History[1])
	}
	if in, err := author.Input(ship).Decode(e.Start.Payload); err != nil || in.To != "Ulm" {
		t.Errorf("starts with %+v, %v", in, err)
	}
}

func TestSendOrStartRejectsAStartAndEventThatAreTooLargeTogether(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (bool, error) {
		half := strings.Repeat("x", 500<<10) // each alone fits
		err := pawl.SendOrStart(ctx, ship, "p", parcel{To: half}, pawl.NewEvent[string]("note"), half)
		return errors.Is(err, pawl.ErrTooLarge), nil
	}, pawl.None{})
	if !r.result() {
		t.Error("want a rejection with a typed error")
	}
}
