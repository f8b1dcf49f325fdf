package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var (
	counter = pawl.NewOrchestration[int, int]("counter")
	add     = pawl.NewEvent[int]("add")
	total   = pawl.NewStatus[int]()
)

// count sums the events that it receives, publishes the sum, and continues as new after every second event; a zero ends it.
func count(ctx *pawl.Context, sum int) (int, error) {
	for range 2 {
		n, err := add.Receive(ctx)
		if err != nil || n == 0 {
			return sum, err
		}
		sum += n
		if err := total.Set(ctx, sum); err != nil {
			return 0, err
		}
	}
	return counter.ContinueAsNew(ctx, sum)
}

func TestUnreadEventsAreCarriedOverInOrder(t *testing.T) {
	env := pawltest.New(t, counter.Do(count))
	for _, n := range []int{1, 2, 3, 4, 5} {
		pawltest.Send(env.BeforeStart(), add, n)
	}
	pawltest.Send(env.At(time.Hour), add, 0)
	got, err := pawltest.Run(env, counter, 100)
	if got != 115 || err != nil {
		t.Fatalf("%d, %v", got, err)
	}
	env.Execution(1).WantHistory(`
		1 0s Started        counter 100 by test
		2 0s EventReceived  add 1
		3 0s EventReceived  add 2
		4 0s ContinuedAsNew 103
	`)
	env.Execution(2).WantLines("Started counter 103 by test", "add 3", "add 4", "ContinuedAsNew 110")
	env.WantHistory(`
		1 0s     Started       counter 110 by test
		2 0s     EventReceived add 5
		3 1h0m0s EventReceived add 0
		4 1h0m0s Completed     115
	`)
}

func TestEventsOfTheLastTurnAndUnreadOnesAreCarriedOver(t *testing.T) {
	code := func(ctx *pawl.Context, n int) (int, error) {
		if n > 0 {
			all, err := add.Drain(ctx)
			for err == nil && len(all) < 3 {
				var next int
				next, err = add.Receive(ctx)
				all = append(all, next)
			}
			return 100*all[0] + 10*all[1] + all[2], err
		}
		if err := pawl.Sleep(ctx, time.Hour); err != nil { // events arrive but are not read
			return 0, err
		}
		return counter.ContinueAsNew(ctx, 1)
	}
	env := pawltest.New(t, counter.Do(code))
	for n, at := range []time.Duration{0, time.Minute, time.Hour} {
		pawltest.Send(env.At(at), add, n+1)
	}
	if got, err := pawltest.Run(env, counter, 0); got != 123 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	env.Execution(2).WantLines("EventReceived add 1", "EventReceived add 2", "EventReceived add 3")
}

func TestStatusVersionsCountOverAllExecutions(t *testing.T) {
	env := pawltest.New(t, counter.Do(count))
	for _, n := range []int{1, 2, 3, 0} {
		pawltest.Send(env.BeforeStart(), add, n)
	}
	if _, err := pawltest.Run(env, counter, 0); err != nil {
		t.Fatal(err)
	}
	if got := pawltest.Statuses(env, total); !slices.Equal(got, []int{1, 3, 6}) {
		t.Errorf("%v", got)
	}
}

func TestLastOfSeveralStatusesInATurnIsPublished(t *testing.T) {
	env := pawltest.New(t, counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		for i := range n {
			if err := total.Set(ctx, i); err != nil {
				return 0, err
			}
		}
		return n, pawl.Sleep(ctx, time.Hour)
	}))
	if _, err := pawltest.Run(env, counter, 5); err != nil {
		t.Fatal(err)
	}
	if got := pawltest.Statuses(env, total); !slices.Equal(got, []int{4}) {
		t.Errorf("%v", got)
	}
	output := outputOf(t, func(tb testing.TB) {
		env := pawltest.New(tb, counter.Do(func(ctx *pawl.Context, n int) (int, error) { return n, total.Set(ctx, n) }))
		_, _ = pawltest.Run(env, counter, 5)
		pawltest.Statuses(env, pawl.NewStatus[string]())
	})
	wantText(t, output, "status, number 1")
}

func TestStatusThatDiffersOnReplayFailsTheTest(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) {
		runs := 0
		_, _ = pawltest.Run(pawltest.New(tb, counter.Do(func(ctx *pawl.Context, n int) (int, error) {
			runs++
			return n, total.Set(ctx, runs)
		})), counter, 0)
	})
	wantText(t, output, "the custom status is 2, version 1, and was 1, version 1")
}

func TestEndlessInstanceEndsWithATypedErrorOrWithACancellation(t *testing.T) {
	daily := counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		if err := pawl.Sleep(ctx, 24*time.Hour); err != nil {
			return n, err
		}
		return counter.ContinueAsNew(ctx, n+1)
	})
	env := pawltest.New(t, daily)
	env.MaxExecutions(30)
	_, err := pawltest.Run(env, counter, 0)
	var endless *pawltest.Endless
	if !errors.As(err, &endless) || endless.Instance != "test" || endless.Executions != 30 {
		t.Fatalf("%v", err)
	}
	env.WantLines("Started counter 29", "24h0m0s ContinuedAsNew 30")

	env = pawltest.New(t, daily)
	env.At(36*time.Hour).Cancel("Ada", "enough")
	if _, err := pawltest.Run(env, counter, 0); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	env.WantLines("Started counter 1", "12h0m0s CancelRequested by Ada: enough", "Cancelled")

	env = pawltest.New(t, counter.Do(func(ctx *pawl.Context, n int) (int, error) { return counter.ContinueAsNew(ctx, n+1) }))
	if _, err := pawltest.Run(env, counter, 0); !errors.As(err, &endless) || endless.Executions != 1000 {
		t.Fatal(err)
	}
}

func TestEndlessChildEndsRunAndEndlessInstanceEndsAdvance(t *testing.T) {
	forever := child.Do(func(ctx *pawl.Context, in string) (string, error) {
		if err := pawl.Sleep(ctx, time.Hour); err != nil {
			return in, err
		}
		return child.ContinueAsNew(ctx, in)
	})
	env := pawltest.New(t, calling(pawl.ID("c-1")), forever)
	_, err := pawltest.Run(env, parent, "x")
	var endless *pawltest.Endless
	if !errors.As(err, &endless) || endless.Instance != "c-1" {
		t.Fatal(err)
	}
	output := outputOf(t, func(tb testing.TB) {
		env := pawltest.New(tb, parent.Do(func(ctx *pawl.Context, in string) (string, error) {
			return in, child.StartDetached(ctx, "forever", in)
		}), forever)
		env.MaxExecutions(5)
		_, _ = pawltest.Run(env, parent, "x")
		env.Advance(time.Hour * 100)
	})
	wantText(t, output, "instance forever continues as new after 5 executions")
}

func TestParentReceivesTheEndOfTheLastExecutionOfItsChild(t *testing.T) {
	env := pawltest.New(t, calling(pawl.ID("c-1")), child.Do(func(ctx *pawl.Context, in string) (string, error) {
		if len(in) < 4 {
			return child.ContinueAsNew(ctx, in+"x")
		}
		return fmt.Sprint(in, pawl.Instance(ctx).Execution, pawl.Instance(ctx).Parent), nil
	}))
	if got, err := pawltest.Run(env, parent, "x"); got != "xxxx4test" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if n := env.Of("c-1").Executions(); n != 4 {
		t.Errorf("%d executions", n)
	}
}

func TestContinueAsNewCancelsChildrenAndReusesNoDerivedID(t *testing.T) {
	env := pawltest.New(t, child.Do(func(ctx *pawl.Context, in string) (string, error) {
		return in, pawl.Sleep(ctx, 24*time.Hour)
	}), counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		slow := child.Start(ctx, fmt.Sprint(n))
		if n == 2 {
			_, err := slow.Get(ctx)
			return n, err
		}
		if err := pawl.Sleep(ctx, time.Hour); err != nil {
			return n, err
		}
		return counter.ContinueAsNew(ctx, n+1)
	}))
	if got, err := pawltest.Run(env, counter, 0); got != 2 || err != nil {
		t.Fatalf("%d, %v", got, err)
	}
	ids := env.Instances()
	if len(ids) != 4 {
		t.Fatalf("%q", ids)
	}
	env.Execution(1).WantLines("ChildCancelRequested of 2: continued-as-new", "ContinuedAsNew 1")
	for _, id := range ids[1:3] {
		env.Of(id).WantLines("1h0m0s CancelRequested continued-as-new by test", "Cancelled")
	}
	env.Of(ids[3]).WantLines("24h0m0s Completed")
}
