package pawltest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
)

// The code of docs/guide/testing.md.

type Order struct{ ID string }

var (
	Fulfil   = pawl.NewOrchestration[Order, string]("fulfil")
	Reserve  = pawl.NewActivity[Order, string]("reserve")
	Release  = pawl.NewActivity[string, pawl.None]("release")
	Charge   = pawl.NewActivity[Order, string]("charge")
	Approved = pawl.NewEvent[string]("approved")

	ErrNotApproved = pawl.NewError("not-approved")
)

func fulfil(ctx *pawl.Context, o Order) (_ string, err error) {
	hold, err := Reserve.Call(ctx, o)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_, rerr := Release.Call(pawl.Detach(ctx), hold)
			err = errors.Join(err, rerr)
		}
	}()
	approval, deadline := Approved.Next(ctx), pawl.After(ctx, 24*time.Hour)
	first, err := pawl.Select(ctx, approval, deadline)
	if err != nil {
		return "", err
	}
	if first == deadline {
		return "", ErrNotApproved
	}
	return Charge.Call(ctx, o, pawl.Retry{Attempts: 5}, pawl.AttemptTimeout(time.Minute))
}

func reserve(_ context.Context, o Order) (string, error) { return "hold-" + o.ID, nil }

func release(context.Context, string) (pawl.None, error) { return pawl.None{}, nil }

func charge(_ context.Context, o Order) (string, error) { return "receipt-" + o.ID, nil }

func shop(t *testing.T) *pawltest.Env {
	t.Helper()
	return pawltest.New(t, Fulfil.Do(fulfil), Reserve.Do(reserve), Release.Do(release), Charge.Do(charge))
}

func TestAnOrderIsChargedOnceItIsApproved(t *testing.T) {
	env := shop(t)
	pawltest.Send(env.At(3*time.Hour), Approved, "finance")
	receipt, err := pawltest.Run(env, Fulfil, Order{ID: "42"})
	if receipt != "receipt-42" || err != nil {
		t.Errorf("%q, %v", receipt, err)
	}
}

func TestAnOrderThatNobodyApprovesGivesTheGoodsBack(t *testing.T) {
	env := shop(t)
	_, err := pawltest.Run(env, Fulfil, Order{ID: "42"})
	if !errors.Is(err, ErrNotApproved) {
		t.Error(err)
	}
	env.WantHistory(`
		 1  0s       Started            fulfil {"ID":"42"} by test
		 2  0s       ActivityScheduled  reserve {"ID":"42"}
		 3  0s       ActivityCompleted  of 2 on test "hold-42"
		 4  0s       TimerScheduled     for 2026-01-02 00:00:00.000 UTC
		 5  24h0m0s  TimerFired         of 4
		 6  24h0m0s  ActivityScheduled  release "hold-42"
		 7  24h0m0s  ActivityCompleted  of 6 on test
		 8  24h0m0s  Failed             not-approved
	`)
}

func TestACardThatIsSlowAndThenBusyIsChargedAllTheSame(t *testing.T) {
	env := shop(t)
	pawltest.Send(env.BeforeStart(), Approved, "finance")
	env.Script(Charge,
		pawltest.Never(), // until its minute is over
		pawltest.Fail(errors.New("busy")).Times(2),
		pawltest.Succeed().After(10*time.Second))
	if _, err := pawltest.Run(env, Fulfil, Order{ID: "42"}); err != nil {
		t.Error(err)
	}
	env.WantLines("lost-select: attempt timed out", "charge (attempt 4)", "Completed")
}

func TestAnOrderCancelledWhileItIsChargedGivesTheGoodsBack(t *testing.T) {
	env := shop(t)
	env.Fake(Reserve.Do(func(context.Context, Order) (string, error) { return "from a fake", nil }))
	env.Script(Charge, pawltest.Never())
	pawltest.Send(env.Blocked(), Approved, "finance")
	env.Blocked().Cancel("Ada", "changed her mind")
	_, err := pawltest.Run(env, Fulfil, Order{ID: "42"})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	env.WantLines(`requested by Ada: changed her mind`, `release "from a fake"`, "Cancelled")
}

func TestTodaysCodeFitsYesterdaysHistory(t *testing.T) {
	exported, err := os.ReadFile("testdata/order-42.jsonl") // pawl history order-42 --json
	if err != nil {
		t.Fatal(err)
	}
	pawltest.Replay(t, exported, Fulfil.Do(fulfil))
	pawltest.EveryPrefix(t, exported, Fulfil.Do(fulfil))
}

func TestEveryLineOfGoInThePageOnTestingIsCompiledHere(t *testing.T) {
	doctest.Shown(t, doctest.Read(t, "../docs/guide/testing.md"), 5, doctest.Read(t, "guide_test.go"))
}
