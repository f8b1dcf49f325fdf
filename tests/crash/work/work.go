// Package work contains the work of the fleets in the crash tests: orchestrations that pass every crash point, and
// activities that record their runs.
package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
)

// The main orchestration, and the activities, events and orchestrations that it shares with others.
var (
	Mixed       = pawl.NewOrchestration[int, int]("mixed")
	Step        = pawl.NewActivity[int, int]("step")
	Slow        = pawl.NewActivity[int, int]("slow")
	CallHanging = pawl.NewOrchestration[pawl.None, string]("call-hanging")
	Hanging     = pawl.NewActivity[pawl.None, string]("hanging")
	Go          = pawl.NewEvent[int]("go")
	Drain       = pawl.NewOrchestration[pawl.None, int]("drain")
)

// Deadline is how long Mixed waits for Slow, which never ends by itself.
const Deadline = 150 * time.Millisecond

// Result is the result of Mixed for the input n and the event e.
func Result(n, e int) int { return (n + 1) + 3*(n+1) + 3 + e + 1 }

// Steps is the number of times that Mixed runs Step.
const Steps = 5

// mixed combines a call, a fan-out, a Select that an activity loses, a timer and an event.
func mixed(ctx *pawl.Context, n int) (int, error) {
	sum, err := Step.Call(ctx, n)
	if err != nil {
		return 0, err
	}
	parts, err := pawl.All(ctx, Step.Start(ctx, n+1), Step.Start(ctx, n+1), Step.Start(ctx, n+1))
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		sum += p
	}
	slow, deadline := Slow.Start(ctx, n), pawl.After(ctx, Deadline)
	switch first, err := pawl.Select(ctx, slow, deadline); {
	case err != nil:
		return 0, err
	case first != deadline:
		return 0, errors.New("an endless activity has won")
	}
	e, err := Go.Receive(ctx)
	if err != nil {
		return 0, err
	}
	last, err := Step.Call(ctx, e)
	return sum + last, err
}

// callHanging calls an activity that hangs on its first claim.
func callHanging(ctx *pawl.Context, _ pawl.None) (string, error) {
	return Hanging.Call(ctx, pawl.None{})
}

// drain receives one event, then drains all that have arrived, and returns the number of events.
func drain(ctx *pawl.Context, _ pawl.None) (int, error) {
	if _, err := Go.Receive(ctx); err != nil {
		return 0, err
	}
	rest, err := Go.Drain(ctx)
	return 1 + len(rest), err
}

// Orchestrations returns the bindings of the orchestrators.
func Orchestrations() []pawl.OrchestrationBinding {
	return slices.Concat(families(), limitedBindings(), deadlines(), single(), []pawl.OrchestrationBinding{
		Moving.Do(moving), Mixed.Do(mixed), CallHanging.Do(callHanging), Drain.Do(drain), Repair.Do(repair), Adder.Do(adder),
	})
}

// Ledger is the path of the file in which the activities record their runs.
type Ledger string

// Activities returns the bindings of the workers.
func (l Ledger) Activities() []pawl.ActivityBinding {
	return []pawl.ActivityBinding{
		Step.Do(l.step), Slow.Do(l.slow), Hanging.Do(l.hanging), Endless.Do(l.endless), Random.Do(l.random), Limited.Do(l.limited), Record.Do(l.record), Wait.Do(waitFor), Hold.Do(l.hold), Fragile.Do(l.fragile),
	}
}

// write appends a line in a single write, so that lines of different processes do not mix.
func (l Ledger) write(ctx context.Context, what string) error {
	f, err := os.OpenFile(string(l), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	i := pawl.Info(ctx)
	_, err = fmt.Fprintf(f, "%s %s %d %s %d\n", what, i.Instance, i.Activity, i.Key, os.Getpid())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (l Ledger) step(ctx context.Context, n int) (int, error) { return n + 1, l.write(ctx, "step") }

// slow runs until it is cancelled.
func (l Ledger) slow(ctx context.Context, _ int) (int, error) {
	if err := l.write(ctx, "slow"); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

// hanging waits until it is cancelled on its first claim, and returns at once on a later one.
func (l Ledger) hanging(ctx context.Context, _ pawl.None) (string, error) {
	if pawl.Info(ctx).Claim > 1 {
		return "reclaimed", l.write(ctx, "reclaimed")
	}
	if err := l.write(ctx, "hanging"); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "", errors.Join(context.Cause(ctx), l.write(ctx, "hanging.cancelled"))
}
