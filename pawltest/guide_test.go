package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
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

func TestApprovedOrderIsCharged(t *testing.T) {
	env := shop(t)
	pawltest.Send(env.At(3*time.Hour), Approved, "finance")
	receipt, err := pawltest.Run(env, Fulfil, Order{ID: "42"})
	if receipt != "receipt-42" || err != nil {
		t.Errorf("%q, %v", receipt, err)
	}
}

func TestOrderWithoutApprovalReleasesItsStock(t *testing.T) {
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

func TestChargeIsRetriedAfterATimeoutAndAFailure(t *testing.T) {
	env := shop(t)
	pawltest.Send(env.BeforeStart(), Approved, "finance")
	env.Script(Charge,
		pawltest.Never(), // until its timeout of one minute
		pawltest.Fail(errors.New("busy")).Times(2),
		pawltest.Succeed().After(10*time.Second))
	if _, err := pawltest.Run(env, Fulfil, Order{ID: "42"}); err != nil {
		t.Error(err)
	}
	env.WantLines("timed-out: attempt timed out", "charge (attempt 4)", "Completed")
}

func TestOrderRejectedByTheLimitReleasesItsStock(t *testing.T) {
	env := shop(t)
	pawltest.Send(env.BeforeStart(), Approved, "finance")
	env.Script(Charge, pawltest.Fail(pawl.ErrQueueFull))
	if _, err := pawltest.Run(env, Fulfil, Order{ID: "42"}); !errors.Is(err, pawl.ErrQueueFull) {
		t.Error(err)
	}
	env.WantLines("ActivityFailed of 7", `release "hold-42"`, "Failed") // there is no second attempt
}

func TestOrderCancelledWhileItIsChargedReleasesItsStock(t *testing.T) {
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

var Weigh = pawl.NewActivity[string, int]("weigh", pawl.Concurrency(1), pawl.QueueTimeout(2*time.Hour))

func weigh(_ context.Context, id string) (int, error) { return len(id), nil }

func TestParcelsAreWeighedOneAtATime(t *testing.T) {
	env := pawltest.New(t, Weigh.Do(weigh), Batch.Do(func(ctx *pawl.Context, ids []string) ([]string, error) {
		_, err := pawl.Map(ctx, len(ids), ids, func(ctx *pawl.Context, id string) (int, error) { return Weigh.Call(ctx, id) })
		return nil, err
	}))
	env.Script(Weigh, pawltest.Succeed().After(40*time.Minute).Times(0))
	if _, err := pawltest.Run(env, Batch, []string{"a", "b", "c"}); err != nil || env.Now().Hour() != 2 {
		t.Errorf("%v at %s", err, env.Now())
	}
	env.WantLines("weigh (waits at limit weigh)", "40m0s Granted", "1h20m0s Granted", "2h0m0s ActivityCompleted")
}

var (
	Parcel  = pawl.NewOrchestration[string, string]("parcel")
	Batch   = pawl.NewOrchestration[[]string, []string]("batch")
	Carry   = pawl.NewActivity[string, string]("carry")
	Arrived = pawl.NewEvent[string]("arrived")

	Stock    = pawl.NewOrchestration[int, int]("stock")
	Taken    = pawl.NewEvent[int]("taken")
	Progress = pawl.NewStatus[int]()
)

// batch sends every parcel, and notifies the warehouse of those that have arrived.
func batch(ctx *pawl.Context, ids []string) ([]string, error) {
	return pawl.Map(ctx, 10, ids, func(ctx *pawl.Context, id string) (string, error) {
		where, err := Parcel.Call(ctx, id, pawl.ID("parcel-"+id))
		if err != nil {
			return "", err
		}
		return where, Arrived.Send(ctx, "warehouse", where)
	})
}

func bring(ctx *pawl.Context, id string) (string, error) { return Carry.Call(ctx, id) }

func TestParcelThatTakesADayIsAChildOfItsBatch(t *testing.T) {
	env := pawltest.New(t, Batch.Do(batch), Parcel.Do(bring))
	env.Fake(Carry.Do(func(_ context.Context, id string) (string, error) { return "door of " + id, nil }))
	env.Script(Carry, pawltest.Succeed().After(24*time.Hour).Times(0)) // every parcel
	where, err := pawltest.Run(env, Batch, []string{"a", "b"})
	if fmt.Sprint(where) != "[door of a door of b]" || err != nil {
		t.Errorf("%q, %v", where, err)
	}
	env.Of("parcel-a").WantHistory(`
		 1  0s       Started            parcel (child of test) "a"
		 2  0s       ActivityScheduled  carry "a"
		 3  24h0m0s  ActivityCompleted  of 2 on test "door of a"
		 4  24h0m0s  Completed          "door of a"
	`)
	if sent := pawltest.SentTo(env, "warehouse", Arrived); fmt.Sprint(sent) != "[door of a door of b]" {
		t.Errorf("%q", sent)
	}
}

func TestBatchWithALostParcelFails(t *testing.T) {
	lost := errors.New("lost")
	env := pawltest.New(t, Batch.Do(batch)) // without Parcel: another fleet has it
	env.Fake(Parcel.Do(func(_ *pawl.Context, id string) (string, error) { return "door of " + id, nil }))
	env.Script(Parcel, pawltest.Succeed(), pawltest.Fail(lost).After(time.Hour))
	if _, err := pawltest.Run(env, Batch, []string{"a", "b"}); err == nil {
		t.Error("the second parcel should be lost")
	}
	env.WantLines("ChildCompleted", "ChildFailed of 3: lost")
}

// stock runs forever: an execution a hundred events.
func stock(ctx *pawl.Context, left int) (int, error) {
	for range 100 {
		n, err := Taken.Receive(ctx)
		if err != nil {
			return left, err
		}
		left -= n
		if err := Progress.Set(ctx, left); err != nil {
			return left, err
		}
	}
	return Stock.ContinueAsNew(ctx, left)
}

func TestEventsBetweenTwoExecutionsAreNotLost(t *testing.T) {
	env := pawltest.New(t, Stock.Do(stock))
	for range 250 {
		pawltest.Send(env.BeforeStart(), Taken, 1)
	}
	env.Blocked().Cancel("Ada", "the shop closes")
	if _, err := pawltest.Run(env, Stock, 300); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	env.Execution(2).WantLines("Started stock 200", "ContinuedAsNew 100")
	if seen := pawltest.Statuses(env, Progress); len(seen) != 250 || seen[249] != 50 {
		t.Errorf("%d values, the last %d", len(seen), seen[len(seen)-1])
	}
}

var (
	Basket = pawl.NewOrchestration[int, int]("basket")
	Put    = pawl.NewUpdate[int, int]("put")
	Inside = pawl.NewQuery[pawl.None, int]("inside")
	Size   = pawl.NewAttribute[int]("size")

	ErrFull = pawl.NewError("basket-full")
)

// basket is full with so many items.
func basket(ctx *pawl.Context, room int) (int, error) {
	n := 0
	if err := Inside.Handle(ctx, func(pawl.None) (int, error) { return n, nil }); err != nil {
		return 0, err
	}
	for n < room {
		u, err := Put.Next(ctx).Get(ctx)
		if err != nil {
			return n, err
		}
		if n+u.Input > room {
			err = u.Reject(ctx, ErrFull)
		} else {
			n += u.Input
			err = errors.Join(u.Answer(ctx, n), Size.Set(ctx, n))
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func TestBasketRejectsWhatDoesNotFit(t *testing.T) {
	env := pawltest.New(t, Basket.Do(basket))
	one := pawltest.Update(env.At(time.Minute), Put, 1)
	tooMany := pawltest.Update(env.At(time.Hour), Put, 5)
	env.At(2 * time.Hour).Do(func() {
		if n, err := pawltest.Query(env, Inside, pawl.None{}); n != 1 || err != nil {
			t.Errorf("%d inside, %v", n, err)
		}
	})
	pawltest.Update(env.At(3*time.Hour), Put, 2)
	if _, err := pawltest.Run(env, Basket, 3); err != nil {
		t.Fatal(err)
	}
	if n, err := one.Get(); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := tooMany.Get(); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if size := env.Attributes()["size"]; size != "3" {
		t.Errorf("size %s", size)
	}
}

func TestFailedOrderIsRetriedByAnOperator(t *testing.T) {
	env := shop(t)
	pawltest.Send(env.BeforeStart(), Approved, "finance")
	env.Script(Reserve, pawltest.Fail(pawl.Permanent(errors.New("no such shelf"))))
	env.At(time.Hour).Retry("Ada", "the shelf is there now")
	if _, err := pawltest.Run(env, Fulfil, Order{ID: "42"}); err == nil {
		t.Error("the shelf is missing")
	}
	env.Advance(2 * time.Hour)
	if receipt, err := pawltest.Result(env, Fulfil); receipt != "receipt-42" || err != nil {
		t.Errorf("%q, %v", receipt, err)
	}
}

func TestOrderWaitsWhileItsActivityIsPaused(t *testing.T) {
	env := shop(t)
	pawltest.Send(env.BeforeStart(), Approved, "finance")
	env.BeforeStart().PauseAction(Reserve)
	env.At(40 * time.Minute).ResumeAction(Reserve)
	_, err := pawltest.Run(env, Fulfil, Order{ID: "42"})
	if waited := env.Now().Sub(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)); waited != 40*time.Minute || err != nil {
		t.Errorf("it waited for %s, %v", waited, err)
	}
}

func TestReceiptsAreChargedOnTheLastDayOfTheMonth(t *testing.T) {
	env := shop(t)
	job, err := client.NewJob(Charge, Order{ID: "rent"}, client.Retry(pawl.Retry{Attempts: 3}))
	if err != nil {
		t.Fatal(err)
	}
	env.BeforeStart().To("rent").CreateSchedule(client.Schedule{
		Times: client.Times{Calendars: []client.Calendar{{Day: "L", Hour: "17"}}, Zone: "Europe/Zurich"}, Run: job,
	})
	env.At(12 * time.Hour).To("deposit").RunJob(job)
	env.Advance(62 * 24 * time.Hour)
	if s := env.Schedule("rent"); s.Done != 2 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	for _, id := range []string{"deposit", "rent@2026-01-31T16:00:00Z", "rent@2026-02-28T16:00:00Z"} {
		if receipt, err := pawltest.JobResult(env.Of(id), Charge); receipt != "receipt-rent" || err != nil {
			t.Errorf("%s: %q, %v", id, receipt, err)
		}
	}
}

func TestOrderOfProductionContinuesWithTodaysCode(t *testing.T) {
	exported, err := os.ReadFile("testdata/order-42.jsonl") // pawl export order-42
	if err != nil {
		t.Fatal(err)
	}
	env := shop(t)
	env.BeforeStart().To("order-42").Import(exported)
	env.At(time.Hour).To("order-42").Rewind(3, "Ada", "charge it again") // to after its reservation; its approval is received again
	env.Advance(2 * time.Hour)
	if receipt, err := pawltest.Result(env.Of("order-42"), Fulfil); receipt != "receipt-42" || err != nil {
		t.Errorf("%q, %v", receipt, err)
	}
}

func fulfilWithGift(ctx *pawl.Context, o Order) (string, error) {
	receipt, err := fulfil(ctx, o)
	if err == nil && pawl.Patched(ctx, "gift") {
		receipt += " and a gift"
	}
	return receipt, err
}

func TestGiftFitsOrdersOfEveryTurn(t *testing.T) {
	for turn := 1; ; turn++ {
		env := shop(t)
		pawltest.Send(env.Blocked(), Approved, "finance")
		env.AfterTurn(turn).Deploy(Fulfil.Do(fulfilWithGift))
		if _, err := pawltest.Run(env, Fulfil, Order{ID: "42"}); err != nil {
			t.Errorf("released after turn %d: %v", turn, err)
		}
		if env.Turns() < turn {
			break
		}
	}
}

func TestOrderKeepsTheVersionOfItsStart(t *testing.T) {
	env := shop(t)
	env.At(time.Hour).Deploy(Fulfil.Do(fulfilWithGift, pawl.Version("2")))
	pawltest.Start(env.At(2*time.Hour).To("order-43"), Fulfil, Order{ID: "43"})
	pawltest.Send(env.At(3*time.Hour), Approved, "finance")
	pawltest.Send(env.At(3*time.Hour).To("order-43"), Approved, "finance")
	receipt, err := pawltest.Run(env, Fulfil, Order{ID: "42"})
	if receipt != "receipt-42" || err != nil {
		t.Errorf("%q, %v", receipt, err)
	}
	env.Advance(time.Minute)
	receipt, err = pawltest.Result(env.Of("order-43"), Fulfil)
	if receipt != "receipt-43 and a gift" || err != nil {
		t.Errorf("%q, %v", receipt, err)
	}
}

func TestTodaysCodeFitsYesterdaysHistory(t *testing.T) {
	exported, err := os.ReadFile("testdata/order-42.jsonl") // pawl history order-42 --json
	if err != nil {
		t.Fatal(err)
	}
	pawltest.Replay(t, exported, Fulfil.Do(fulfil))
	pawltest.EveryPrefix(t, exported, Fulfil.Do(fulfil))
}

func TestGuideTestingPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/testing.md"), 18, doctest.Read(t, "guide_test.go")+doctest.Read(t, "../pawlfx/replay_test.go"))
}
