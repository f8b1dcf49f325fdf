package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var (
	depot    = pawl.NewOrchestration[[]string, int]("despatch-all")
	despatch = pawl.NewOrchestration[string, string]("despatch", pawl.Concurrency(1))
	label    = pawl.NewActivity[string, string]("label", pawl.Concurrency(1), pawl.KeyBy("customer.id"), pawl.Group("print", pawl.Rate(1, time.Hour)))
)

// despatchAll counts the boxes that could be sent.
func despatchAll(ctx *pawl.Context, ids []string) (int, error) {
	sent := 0
	done, err := pawl.Map(ctx, len(ids), ids, func(ctx *pawl.Context, id string) (bool, error) {
		_, err := despatch.Call(ctx, id)
		if errors.Is(err, pawl.ErrLimited) {
			return false, nil
		}
		return true, err
	})
	for _, ok := range done {
		if ok {
			sent++
		}
	}
	return sent, err
}

func despatchOne(ctx *pawl.Context, id string) (string, error) {
	return label.Call(ctx, id, pawl.KeepSlot(), pawl.Retry{Attempts: 4, Limited: true}, pawl.AttemptTimeout(time.Minute))
}

func printed(_ context.Context, id string) (string, error) { return "label of " + id, nil }

// press prints all copies concurrently, and returns the outcome and the end of each in minutes after the start.
func press(opts ...pawl.ActivityOption) (pawl.Orchestration[[]order, []string], pawl.Activity[order, string], []pawl.Binding) {
	all, one := pawl.NewOrchestration[[]order, []string]("press"), pawl.NewActivity[order, string]("print", opts...)
	return all, one, []pawl.Binding{one.Do(func(_ context.Context, o order) (string, error) { return o.ID, nil }), all.Do(func(ctx *pawl.Context, os []order) ([]string, error) {
		begin := pawl.Now(ctx)
		return pawl.Map(ctx, len(os), os, func(ctx *pawl.Context, o order) (string, error) {
			_, err := one.Call(ctx, o, pawl.Retry{})
			how := fmt.Sprint(int(pawl.Now(ctx).Sub(begin).Minutes()))
			for _, is := range []error{pawl.ErrQueueFull, pawl.ErrQueueTimeout, pawl.ErrQueueCleared, pawl.ErrLimited} {
				if errors.Is(err, is) {
					how += " " + is.Error()
				}
			}
			return how, nil
		})
	})}
}

type order struct {
	ID       string
	Customer customer `json:"customer"`
}

type customer struct {
	ID string `json:"id"`
}

func orders(customers ...string) (os []order) {
	for i, c := range customers {
		os = append(os, order{ID: fmt.Sprint(i), Customer: customer{ID: c}})
	}
	return os
}

// Each activity takes twenty minutes.
func TestLimitsApplyInVirtualTimeAndOverCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		opts []pawl.ActivityOption
		of   []string
		want string
	}{
		"concurrency":      {[]pawl.ActivityOption{pawl.Concurrency(2)}, []string{"a", "a", "a", "a", "a"}, "[20 20 40 40 60]"},
		"key":              {[]pawl.ActivityOption{pawl.Concurrency(1), pawl.KeyBy("customer.id")}, []string{"a", "a", "b", "a", "b"}, "[20 40 20 60 40]"},
		"rate":             {[]pawl.ActivityOption{pawl.Rate(2, 24*time.Hour), pawl.QueueTimeout(-1)}, []string{"a", "a", "a", "a", "a"}, "[20 20 1460 1460 2900]"},
		"quota":            {[]pawl.ActivityOption{pawl.Quota(3, 10*time.Hour), pawl.QueueTimeout(-1)}, []string{"a", "a", "a", "a"}, "[20 20 20 620]"},
		"maximum wait":     {[]pawl.ActivityOption{pawl.Concurrency(1), pawl.QueueTimeout(30 * time.Minute)}, []string{"a", "a", "a"}, "[20 40 30 pawl.queue-timeout]"},
		"length of queue":  {[]pawl.ActivityOption{pawl.Concurrency(1), pawl.QueueLimit(1)}, []string{"a", "a", "a"}, "[20 40 0 pawl.queue-full]"},
		"rejection":        {[]pawl.ActivityOption{pawl.Concurrency(1), pawl.Reject()}, []string{"a", "a"}, "[20 0 pawl.limited]"},
		"group of actions": {[]pawl.ActivityOption{pawl.Group("paper", pawl.Concurrency(1))}, []string{"a", "a"}, "[20 40]"},
	} {
		t.Run(name, func(t *testing.T) {
			for turn := 0; ; turn++ { // 0: the code is restored after each turn, and its owner survives
				all, one, bindings := press(c.opts...)
				env := pawltest.New(t, bindings...)
				env.Script(one, pawltest.Succeed().After(20*time.Minute).Times(0))
				if turn > 0 {
					env.CrashAfter(turn)
				}
				got, err := pawltest.Run(env, all, orders(c.of...))
				if fmt.Sprint(got) != c.want || err != nil {
					t.Fatalf("owner died after turn %d: %v, %v, want %s\n%s", turn, got, err, c.want, env.History())
				}
				if env.Turns() < turn {
					break
				}
			}
		})
	}
}

func TestInstancesWaitAtTheLimitOfTheirOrchestration(t *testing.T) {
	env := pawltest.New(t, depot.Do(despatchAll), despatch.Do(despatchOne), label.Do(printed))
	env.Script(label, pawltest.Succeed().After(30*time.Second).Times(0))
	sent, err := pawltest.Run(env, depot, []string{"a", "b", "c"})
	if sent != 3 || err != nil || env.Now().Format(time.TimeOnly) != "00:01:30" {
		t.Errorf("%d, %v at %s", sent, err, env.Now())
	}
}

func TestScriptRejectsLikeALimit(t *testing.T) {
	env := pawltest.New(t, depot.Do(despatchAll), despatch.Do(despatchOne), label.Do(printed))
	env.Script(despatch, pawltest.Succeed(), pawltest.Fail(pawl.ErrLimited))
	env.Script(label, pawltest.Fail(pawl.ErrQueueFull), pawltest.Fail(pawl.ErrQueueTimeout).After(time.Second), pawltest.Never())
	sent, err := pawltest.Run(env, depot, []string{"a", "b"})
	if sent != 1 || err != nil {
		t.Errorf("%d, %v", sent, err)
	}
	env.Of(env.Instances()[1]).WantLines(
		"ActivityFailed of 2 on test pawl.queue-full", "label (attempt 2)",
		"pawl.queue-timeout", "label (attempt 3)", "attempt timed out after 1m0s", "label (attempt 4)", "Completed")
}

func TestRejectionIsNotRetriedInTheTestKit(t *testing.T) {
	env := pawltest.New(t, despatch.Do(func(ctx *pawl.Context, id string) (string, error) { return label.Call(ctx, id, pawl.Retry{}) }))
	env.Script(label, pawltest.Fail(pawl.ErrQueueFull))
	if _, err := pawltest.Run(env, despatch, "a"); !errors.Is(err, pawl.ErrQueueFull) {
		t.Error(err)
	}
}

func TestAddedLimitsFitInstancesOfEveryTurn(t *testing.T) {
	plain := pawl.NewActivity[string, string]("label")
	before := func(ctx *pawl.Context, id string) (string, error) {
		return plain.Call(ctx, id, pawl.Retry{Attempts: 4}, pawl.AttemptTimeout(time.Minute))
	}
	for turn := 1; ; turn++ {
		env := pawltest.New(t, despatch.Do(before), label.Do(printed))
		env.Script(label, pawltest.Fail(errors.New("jam")).Times(2), pawltest.Never())
		env.AfterTurn(turn).Deploy(despatch.Do(despatchOne))
		if _, err := pawltest.Run(env, despatch, "a"); err != nil {
			t.Errorf("released after turn %d: %v", turn, err)
		}
		pawltest.EveryPrefix(t, env.Export(), despatch.Do(despatchOne))
		if env.Turns() < turn {
			break
		}
	}
}
