package work

import (
	"context"

	"github.com/pawlrun/pawl"
)

// Orchestrations that call one activity: a step, or one that is held until the ledger is opened.
var (
	Beat = pawl.NewOrchestration[int, int]("beat")
	Keep = pawl.NewOrchestration[pawl.None, pawl.None]("keep")
	Hold = pawl.NewActivity[pawl.None, pawl.None]("hold")
)

// Held is the first word of the ledger line that Hold writes when it begins.
const Held = "held"

func beat(ctx *pawl.Context, n int) (int, error) { return Step.Call(ctx, n) }

func keep(ctx *pawl.Context, _ pawl.None) (pawl.None, error) { return Hold.Call(ctx, pawl.None{}) }

func single() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{Beat.Do(beat), Keep.Do(keep)}
}

func (l Ledger) hold(ctx context.Context, _ pawl.None) (pawl.None, error) {
	if err := l.write(ctx, Held); err != nil {
		return pawl.None{}, err
	}
	return pawl.None{}, l.wait(ctx)
}
