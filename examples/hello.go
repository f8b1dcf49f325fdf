package examples

import (
	"context"

	"github.com/pawlrun/pawl"
)

// The smallest durable program.
var (
	Hello = pawl.NewOrchestration[string, string]("hello")
	Greet = pawl.NewActivity[string, string]("greet")
)

func hello(ctx *pawl.Context, name string) (string, error) { return Greet.Call(ctx, name) }

func greet(_ context.Context, name string) (string, error) { return "Hello, " + name + "!", nil }
