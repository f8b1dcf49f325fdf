package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var (
	cart    = pawl.NewOrchestration[int, int]("cart")
	put     = pawl.NewUpdate[int, int]("put")
	size    = pawl.NewQuery[pawl.None, int]("size")
	tenant  = pawl.NewAttribute[string]("tenant")
	items   = pawl.NewAttribute[int]("items")
	errFull = pawl.NewError("full")
	errZero = pawl.NewError("zero")
)

// fill accepts updates until it has ten items or receives a checkout; its validator rejects zero.
func fill(ctx *pawl.Context, n int) (int, error) {
	if err := put.Validate(ctx, func(n int) error {
		if n == 0 {
			return errZero
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if err := size.Handle(ctx, func(pawl.None) (int, error) { return n, nil }); err != nil {
		return 0, err
	}
	for n < 10 {
		u, err := put.Next(ctx).Get(ctx)
		if err != nil {
			return n, err
		}
		if n+u.Input > 10 {
			if err := u.Reject(ctx, errFull); err != nil {
				return n, err
			}
			continue
		}
		n += u.Input
		if err := errors.Join(u.Answer(ctx, n), items.Set(ctx, n)); err != nil {
			return n, err
		}
	}
	return n, nil
}

func TestUpdatesAreAnsweredRejectedAndRecognizedOverACrashAtEveryTurn(t *testing.T) {
	for turn := 0; ; turn++ {
		env := pawltest.New(t, cart.Do(fill))
		if turn > 0 {
			env.CrashAfter(turn)
		}
		env.With(tenant.Is("acme"))
		early := pawltest.Update(env.BeforeStart(), put, 2)
		zero := pawltest.Update(env.At(time.Hour), put, 0)
		full := pawltest.Update(env.At(2*time.Hour), put, 9)
		first := pawltest.Update(env.At(3*time.Hour).ID("once"), put, 4)
		env.At(3 * time.Hour).Do(func() {
			if n, err := pawltest.Query(env, size, pawl.None{}); n != 6 || err != nil {
				t.Errorf("%d items, %v", n, err)
			}
		})
		again := pawltest.Update(env.At(4*time.Hour).ID("once"), put, 4)
		last := pawltest.Update(env.At(5*time.Hour), put, 4)
		if n, err := pawltest.Run(env, cart, 0); n != 10 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		for want, a := range map[string]*pawltest.Answer[int]{"2 <nil>": early, "0 zero": zero, "0 full": full, "6 <nil>": first, "10 <nil>": last} {
			n, err := a.Get()
			if got := fmt.Sprint(n, " ", err); got != want {
				t.Errorf("owner died after turn %d: %s, want %s", turn, got, want)
			}
		}
		if n, err := again.Get(); n != 6 || err != nil {
			t.Errorf("the repeat is answered with %d, %v", n, err)
		}
		if got := env.Attributes(); !maps.Equal(got, map[string]string{"tenant": "acme", "items": "10"}) {
			t.Errorf("%v", got)
		}
		if env.Turns() < turn {
			break
		}
	}
}

func TestUpdateStartsItsInstanceAndEndsWithIt(t *testing.T) {
	env := pawltest.New(t, cart.Do(fill))
	first := pawltest.UpdateWithStart(env.At(time.Hour).To("other"), cart, 3, put, 4)
	second := pawltest.UpdateWithStart(env.At(2*time.Hour).To("other"), cart, 3, put, 1)
	env.At(3*time.Hour).To("other").Cancel("Ada", "")
	late := pawltest.Update(env.At(3*time.Hour).To("other"), put, 1)
	pawltest.Update(env.At(4*time.Hour), put, 10)
	if _, err := pawltest.Run(env, cart, 0); err != nil {
		t.Fatal(err)
	}
	a, errA := first.Get()
	b, errB := second.Get()
	if a != 7 || b != 8 || errA != nil || errB != nil {
		t.Errorf("%d, %v; %d, %v", a, errA, b, errB)
	}
	if _, err := late.Get(); !errors.Is(err, pawl.ErrUpdateEnded) {
		t.Errorf("%v", err)
	}
}

func TestUpdateExpiresUnlessItIsReceivedInTime(t *testing.T) {
	env := pawltest.New(t, cart.Do(func(ctx *pawl.Context, n int) (int, error) {
		if err := pawl.Sleep(ctx, 2*time.Hour); err != nil {
			return 0, err
		}
		u, err := put.Next(ctx).Get(ctx)
		if err != nil {
			return 0, err
		}
		return u.Input, u.Answer(ctx, n)
	}))
	expired := pawltest.Update(env.At(time.Minute), put, 1, pawltest.Deadline(time.Hour))
	answered := pawltest.Update(env.At(2*time.Minute), put, 2, pawltest.Deadline(3*time.Hour))
	other := pawltest.UpdateWithStart(env.At(time.Minute).To("other"), cart, 7, put, 3, pawltest.Deadline(time.Hour))
	pawltest.Update(env.At(4*time.Hour).To("other"), put, 4)
	if n, err := pawltest.Run(env, cart, 5); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	env.Advance(4 * time.Hour)
	if n, err := answered.Get(); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, a := range []*pawltest.Answer[int]{expired, other} {
		if _, err := a.Get(); !errors.Is(err, pawl.ErrUpdateExpired) {
			t.Errorf("%v", err)
		}
	}
}

func TestOperatorPausesStopsAndResumesAnInstance(t *testing.T) {
	env := reminders(t)
	env.At(12*time.Hour).Pause("Ada", "vacation")
	pawltest.Send(env.At(36*time.Hour), answered, "yes")
	env.At(72*time.Hour).Resume("Ada", "back")
	got, err := pawltest.Run(env, remind, 30)
	if got != "yes" || err != nil || env.Now().Format(time.DateOnly) != "2026-01-04" {
		t.Fatalf("%q, %v at %s", got, err, env.Now())
	}
	env.WantLines("12h0m0s Paused by Ada", "72h0m0s Resumed by Ada")

	runs := 0
	env = reminders(t)
	env.Fake(mail.Do(func(context.Context, int) (string, error) { runs++; return "", nil }))
	env.Script(mail, pawltest.Succeed().After(30*time.Minute).Times(0))
	env.At(10*time.Minute).Stop("Ada", "")
	env.At(3*time.Hour).Resume("Ada", "")
	if _, err := pawltest.Run(env, remind, 1); err != nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	env.WantLines("10m0s Paused", "3h0m0s Resumed", "3h30m0s ActivityCompleted")
}

func TestOperatorTerminatesRetriesRewindsAndPurges(t *testing.T) {
	env := reminders(t)
	env.At(36*time.Hour).Terminate("Ada", "enough")
	if _, err := pawltest.Run(env, remind, 30); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	env.WantLines("36h0m0s Cancelled")

	env = reminders(t)
	env.Script(mail, pawltest.Succeed(), pawltest.Fail(pawl.Permanent(errBusy)))
	env.At(48*time.Hour).Retry("Ada", "try again")
	if _, err := pawltest.Run(env, remind, 3); !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	env.Advance(96 * time.Hour)
	if got, err := pawltest.Result(env, remind); got != "no answer" || err != nil || env.Of("test").Executions() != 2 {
		t.Errorf("%q, %v", got, err)
	}
	env.WantLines("ActivityCompleted of 2", "Rewound", "Completed")

	output := outputOf(t, func(tb testing.TB) {
		env := reminders(tb)
		env.At(time.Hour).Resume("Ada", "")
		_, _ = pawltest.Run(env, remind, 1)
	})
	wantText(t, output, "refused: instance test is not paused")

	env = pawltest.New(t, parent.Do(func(ctx *pawl.Context, in string) (string, error) {
		return in, pawl.Sleep(ctx, 72*time.Hour)
	}), child.Do(mailing), mail.Do(send))
	pawltest.Start(env.At(0).To("c-1"), child, "x")
	env.At(time.Hour).To("c-1").Purge(false)
	pawltest.Start(env.At(2*time.Hour).To("c-1"), child, "x")
	if _, err := pawltest.Run(env, parent, ""); err != nil || len(env.Instances()) != 3 {
		t.Errorf("%v, %q", err, env.Instances())
	}
}

func TestRecordOfAPurgedInstanceRemains(t *testing.T) {
	env := reminders(t)
	env.At(36 * time.Hour).Purge(true)
	if _, err := pawltest.Run(env, remind, 30); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	env.WantLines("ActivityCompleted", "Cancelled")
	if got := env.Of("test").Executions(); got != 1 {
		t.Errorf("%d executions", got)
	}
}
