package integration_test

import (
	"context"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
)

func ExampleStart() {
	var t *testing.T // of a test
	greet := pawl.NewActivity[string, string]("greet")
	hello := pawl.NewOrchestration[string, string]("hello")
	fleet := integration.Start(t,
		hello.Do(func(ctx *pawl.Context, name string) (string, error) { return greet.Call(ctx, name) }),
		greet.Do(func(_ context.Context, name string) (string, error) { return "Hello, " + name, nil }))
	run, err := client.Start(t.Context(), fleet.Client, hello, "hello-1", "Ada")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(t.Context()); got != "Hello, Ada" || err != nil {
		t.Error(got, err)
	}
}
