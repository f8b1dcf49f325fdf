package examples

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
)

// The code of docs/guide/limits.md.

var (
	reporting = pawl.Group("reporting", pawl.Concurrency(4))
	Monthly   = pawl.NewActivity[string, string]("monthly-report", reporting)
	Yearly    = pawl.NewActivity[string, string]("yearly-report", reporting, pawl.Concurrency(1)) // its own policy replaces the group's
)

var (
	Answering = pawl.NewOrchestration[string, []string]("answer-query")
	Search    = pawl.NewActivity[string, []string]("search", pawl.Concurrency(20), pawl.Reject())
	LookUp    = pawl.NewActivity[string, []string]("look-up")
)

func answer(ctx *pawl.Context, query string) ([]string, error) {
	found, err := Search.Call(ctx, query)
	if errors.Is(err, pawl.ErrLimited) { // twenty searches are running: use yesterday's results
		return LookUp.Call(ctx, query)
	}
	return found, err
}

var (
	Animate = pawl.NewOrchestration[[]string, []string]("animate")
	Render  = pawl.NewActivity[string, string]("render", pawl.Concurrency(8)) // as many licences as we have
)

func animate(ctx *pawl.Context, scenes []string) ([]string, error) {
	return pawl.Map(ctx, 100, scenes, func(ctx *pawl.Context, scene string) (string, error) {
		return Render.Call(ctx, scene,
			pawl.Retry{Attempts: 3, Limited: true}, // also after a full queue
			pawl.KeepSlot(),                        // a render that has crashed continues before the next begins
			pawl.AttemptTimeout(time.Hour),         // from its admission
			pawl.Within(24*time.Hour))              // from the call, waiting included
	})
}

var Import = pawl.NewOrchestration[Feed, int]("import-feed", pawl.Concurrency(1), pawl.KeyBy("shop.id"))

type Feed struct {
	Shop  Shop     `json:"shop"`
	Items []string `json:"items"`
}

type Shop struct {
	ID string `json:"id"`
}

func TestGuideBillsThatTheLimitRejectsAreDeferred(t *testing.T) {
	env := pawltest.New(t, all()...)
	env.Script(Debit, pawltest.Succeed(), pawltest.Fail(pawl.ErrQueueFull), pawltest.Fail(pawl.ErrQueueTimeout))
	got, err := pawltest.Run(env, Bill, Bills{Tenant: "acme", Cents: []int{100, 200, 300}})
	if err != nil || got.Cents != 100 || !slices.Equal(got.Deferred, []int{200, 300}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestGuideQueryIsAnsweredFromTheCacheWhenTheLimitIsFull(t *testing.T) {
	greet := func(what string) func(context.Context, string) ([]string, error) {
		return func(_ context.Context, query string) ([]string, error) { return []string{what, query}, nil }
	}
	for want, step := range map[string]pawltest.Step{"known": pawltest.Fail(pawl.ErrLimited), "found": pawltest.Succeed()} {
		env := pawltest.New(t, Answering.Do(answer), Search.Do(greet("found")), LookUp.Do(greet("known")))
		env.Script(Search, step)
		if got, err := pawltest.Run(env, Answering, "lamp"); err != nil || !slices.Equal(got, []string{want, "lamp"}) {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
	}
}

func TestGuideSceneIsRenderedDespiteARejectionAndACrash(t *testing.T) {
	env := pawltest.New(t, Animate.Do(animate), Render.Do(func(_ context.Context, scene string) (string, error) { return scene + ".mov", nil }))
	env.Script(Render, pawltest.Fail(pawl.ErrQueueFull), pawltest.Fail(errors.New("crashed")), pawltest.Succeed())
	if got, err := pawltest.Run(env, Animate, []string{"s1"}); err != nil || !slices.Equal(got, []string{"s1.mov"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGuideLimitsAreValid(t *testing.T) {
	greet := func(context.Context, string) (string, error) { return "", nil }
	bindings := []pawl.Binding{
		Monthly.Do(greet), Yearly.Do(greet),
		Import.Do(func(_ *pawl.Context, f Feed) (int, error) { return len(f.Items), nil }),
	}
	if _, err := author.NewRegistry(bindings...); err != nil {
		t.Error(err)
	}
	d := author.OrchestrationOf(Import.Do(func(*pawl.Context, Feed) (int, error) { return 0, nil })).Declared
	if d.Action == nil || d.Action.Concurrency != 1 || d.Action.Key != "shop.id" {
		t.Errorf("%+v", d.Action)
	}
}

func TestGuideLimitsPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/limits.md"), 6, doctest.Read(t, "guide_limits_test.go", "ratelimit.go"))
}
