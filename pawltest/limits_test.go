package pawltest_test

import (
	"context"
	"errors"
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

// despatchAll counts the boxes that could be sent off.
func despatchAll(ctx *pawl.Context, ids []string) (int, error) {
	gone := 0
	done, err := pawl.Map(ctx, len(ids), ids, func(ctx *pawl.Context, id string) (bool, error) {
		_, err := despatch.Call(ctx, id)
		if errors.Is(err, pawl.ErrLimited) {
			return false, nil
		}
		return true, err
	})
	for _, ok := range done {
		if ok {
			gone++
		}
	}
	return gone, err
}

func despatchOne(ctx *pawl.Context, id string) (string, error) {
	return label.Call(ctx, id, pawl.KeepSlot(), pawl.Retry{Attempts: 4, Limited: true}, pawl.AttemptTimeout(time.Minute))
}

func printed(_ context.Context, id string) (string, error) { return "label of " + id, nil }

func TestGatesAreOpenHoweverNarrowTheyAreDeclared(t *testing.T) {
	env := pawltest.New(t, depot.Do(despatchAll), despatch.Do(despatchOne), label.Do(printed))
	gone, err := pawltest.Run(env, depot, []string{"a", "b", "c"})
	if gone != 3 || err != nil || env.Now().Hour() != 0 || env.Now().Minute() != 0 {
		t.Errorf("%d, %v at %s", gone, err, env.Now())
	}
}

func TestAScriptRefusesWhatAGateWould(t *testing.T) {
	env := pawltest.New(t, depot.Do(despatchAll), despatch.Do(despatchOne), label.Do(printed))
	env.Script(despatch, pawltest.Succeed(), pawltest.Fail(pawl.ErrLimited))
	env.Script(label, pawltest.Fail(pawl.ErrQueueFull), pawltest.Fail(pawl.ErrQueueTimeout).After(time.Second), pawltest.Never())
	gone, err := pawltest.Run(env, depot, []string{"a", "b"})
	if gone != 1 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
	env.Of(env.Instances()[1]).WantLines(
		"ActivityFailed of 2 on test pawl.queue-full", "label (attempt 2)",
		"pawl.queue-timeout", "label (attempt 3)", "attempt timed out after 1m0s", "label (attempt 4)", "Completed")
}

func TestARefusalIsFinalInATestAsItIsInProduction(t *testing.T) {
	env := pawltest.New(t, despatch.Do(func(ctx *pawl.Context, id string) (string, error) { return label.Call(ctx, id, pawl.Retry{}) }))
	env.Script(label, pawltest.Fail(pawl.ErrQueueFull))
	if _, err := pawltest.Run(env, despatch, "a"); !errors.Is(err, pawl.ErrQueueFull) {
		t.Error(err)
	}
}

func TestLimitsMayBeReleasedAtAnyMoment(t *testing.T) {
	plain := pawl.NewActivity[string, string]("label")
	before := func(ctx *pawl.Context, id string) (string, error) {
		return plain.Call(ctx, id, pawl.Retry{Attempts: 4}, pawl.AttemptTimeout(time.Minute))
	}
	for turn := 1; ; turn++ {
		env := pawltest.New(t, despatch.Do(before), label.Do(printed))
		env.Script(label, pawltest.Fail(errors.New("jam")).Times(2), pawltest.Never())
		env.AfterTurn(turn).Deploy(despatch.Do(despatchOne))
		if _, err := pawltest.Run(env, despatch, "a"); err != nil {
			t.Errorf("released behind turn %d: %v", turn, err)
		}
		pawltest.EveryPrefix(t, env.Export(), despatch.Do(despatchOne))
		if env.Turns() < turn {
			break
		}
	}
}
