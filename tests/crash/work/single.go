package work

import (
	"context"

	"github.com/pawlrun/pawl"
)

// Orchestrations that call one activity: a step, or Hold, which runs until ReleaseHolders.
var (
	CallStep = pawl.NewOrchestration[int, int]("call-step")
	CallHold = pawl.NewOrchestration[pawl.None, pawl.None]("call-hold")
	Hold     = pawl.NewActivity[pawl.None, pawl.None]("hold")
)

// Held is the first word of the ledger line that Hold writes when it begins.
const Held = "held"

func callStep(ctx *pawl.Context, n int) (int, error) { return Step.Call(ctx, n) }

func callHold(ctx *pawl.Context, _ pawl.None) (pawl.None, error) { return Hold.Call(ctx, pawl.None{}) }

func single() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{CallStep.Do(callStep), CallHold.Do(callHold)}
}

func (l Ledger) hold(ctx context.Context, _ pawl.None) (pawl.None, error) {
	if err := l.write(ctx, Held); err != nil {
		return pawl.None{}, err
	}
	return pawl.None{}, l.wait(ctx)
}
