package examples

import "github.com/pawlrun/pawl"

// An orchestration that only waits for an event.
var (
	Wait = pawl.NewOrchestration[pawl.None, string]("event")
	Poke = pawl.NewEvent[string]("poke")
)

func wait(ctx *pawl.Context, _ pawl.None) (string, error) { return Poke.Receive(ctx) }
