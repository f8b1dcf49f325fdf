// Package work is what the fleets of the crash tests are busy with: orchestrations
// that pass every crash point, and activities that write down that they ran.
package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawlrun/pawl"
)

// The orchestration and what it uses.
var (
	Mixed = pawl.NewOrchestration[int, int]("mixed")
	Step  = pawl.NewActivity[int, int]("step")
	Slow  = pawl.NewActivity[int, int]("slow")
	Lost  = pawl.NewOrchestration[pawl.None, string]("lost")
	Stray = pawl.NewActivity[pawl.None, string]("stray")
	Go    = pawl.NewEvent[int]("go")
	Sweep = pawl.NewOrchestration[pawl.None, int]("sweep")
)

// Deadline is how long Mixed waits for Slow, which never ends by itself.
const Deadline = 150 * time.Millisecond

// Result is what Mixed gives for n, if it was sent e.
func Result(n, e int) int { return (n + 1) + 3*(n+1) + 3 + e + 1 }

// Steps is how often Mixed runs Step.
const Steps = 5

// mixed has a bit of everything: a call, a fan-out, a lost Select, a timer, an event.
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
		return 0, errors.New("an activity that never ends has won")
	}
	e, err := Go.Receive(ctx)
	if err != nil {
		return 0, err
	}
	last, err := Step.Call(ctx, e)
	return sum + last, err
}

// lost runs an activity that its first worker never ends.
func lost(ctx *pawl.Context, _ pawl.None) (string, error) { return Stray.Call(ctx, pawl.None{}) }

// sweep receives one event, then takes all that have arrived, and gives how many it has had.
func sweep(ctx *pawl.Context, _ pawl.None) (int, error) {
	if _, err := Go.Receive(ctx); err != nil {
		return 0, err
	}
	rest, err := Go.Drain(ctx)
	return 1 + len(rest), err
}

// Orchestrations are bound for the orchestrators.
func Orchestrations() []pawl.OrchestrationBinding {
	return append(append(append(append(families(), gated()...), deadlines()...), single()...),
		Moving.Do(moving), Mixed.Do(mixed), Lost.Do(lost), Sweep.Do(sweep), Repair.Do(repair), Adder.Do(adder))
}

// Ledger is the file in which the activities write down what they did.
type Ledger string

// Activities are bound for the workers.
func (l Ledger) Activities() []pawl.ActivityBinding {
	return []pawl.ActivityBinding{
		Step.Do(l.step), Slow.Do(l.slow), Stray.Do(l.stray), Endless.Do(l.endless), Roll.Do(l.roll), Booth.Do(l.booth), Sign.Do(l.sign), Rest.Do(rest), Hold.Do(l.hold), Fragile.Do(l.fragile),
	}
}

// write appends one line in one write, so that processes do not mix theirs.
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

// stray waits for its end if it is the first to be asked, and answers at once if it is a later one.
func (l Ledger) stray(ctx context.Context, _ pawl.None) (string, error) {
	if pawl.Info(ctx).Claim > 1 {
		return "found", l.write(ctx, "found")
	}
	if err := l.write(ctx, "strayed"); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "", errors.Join(context.Cause(ctx), l.write(ctx, "cut"))
}
