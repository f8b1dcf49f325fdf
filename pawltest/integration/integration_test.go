package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/worker"
)

// The code of docs/guide/integration-tests.md.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	Review  = pawl.NewOrchestration[string, string]("review")
	Print   = pawl.NewActivity[string, string]("print")
	Remark  = pawl.NewEvent[string]("remark")
	Archive = pawl.NewActivity[string, pawl.None]("archive", pawl.Queue("archive"))
)

func review(ctx *pawl.Context, text string) (string, error) {
	printed, err := Print.Call(ctx, text)
	if err != nil {
		return "", err
	}
	remark, err := Remark.Receive(ctx)
	if err != nil {
		return "", err
	}
	_, err = Archive.Call(ctx, remark)
	return printed + ", " + remark, err
}

func printed(_ context.Context, text string) (string, error) { return text + " printed", nil }

func TestReviewReturnsTheRemark(t *testing.T) {
	t.Parallel()
	fleet := integration.Start(t, Review.Do(review), Print.Do(printed),
		Archive.Do(func(context.Context, string) (pawl.None, error) { return pawl.None{}, nil }))
	run, err := client.Start(t.Context(), fleet.Client, Review, "review-1", "chapter one")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Send(t.Context(), fleet.Client, Remark, "review-1", "too long"); err != nil {
		t.Fatal(err)
	}
	got, err := run.Result(t.Context())
	if got != "chapter one printed, too long" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReviewWaitsForAnArchiveWorker(t *testing.T) {
	t.Parallel()
	fleet := integration.Start(t, Review.Do(review), Print.Do(printed)) // no worker for the archive yet
	run, err := client.SendOrStart(t.Context(), fleet.Client, Review, "review-1", "chapter one", Remark, "good")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := run.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	w, err := worker.New(worker.Config{NATS: fleet.NATS, Redis: fleet.Redis},
		Archive.Do(func(context.Context, string) (pawl.None, error) { return pawl.None{}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	if got, err := run.Result(t.Context()); got != "chapter one printed, good" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGuideIntegrationPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../../docs/guide/integration-tests.md"), 2, doctest.Read(t, "integration_test.go"))
}
