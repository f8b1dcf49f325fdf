package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	lookAfter = 3 * time.Second // of waiting, and again so often
	lookTime  = time.Second     // for one look
)

// waiting is what start and get have in common when they wait.
type waiting struct {
	Wait    bool          `help:"Wait for the end and show the result; a failed instance is exit code 1."`
	Timeout time.Duration `placeholder:"DURATION" help:"With --wait: at most so long, such as 30s. Default: for ever."`
	JSON    bool          `name:"json" help:"Write JSON."`
}

// AfterApply refuses a time in the past, and one that nobody asked for.
func (w waiting) AfterApply() error {
	switch {
	case w.Timeout < 0:
		return fmt.Errorf("--timeout %s: want more than nothing", w.Timeout)
	case w.Timeout > 0 && !w.Wait:
		return errors.New("--timeout needs --wait")
	}
	return nil
}

// await waits for the end, shows it, and makes a failed instance an exit code. What
// keeps an instance for long is said meanwhile, for whoever waits might wait for ever.
func (w waiting) await(ctx context.Context, s streams, cl *client.Client, run *client.RawRun) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if w.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, w.Timeout)
	}
	defer cancel()
	quiet := tellHindrances(limited, s.err, cl, run.ID())
	result, err := run.Result(limited)
	quiet()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%s has not ended within %s%s", run.ID(), w.Timeout, because(ctx, cl, run.ID()))
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no longer waiting for %s, which goes on: %w", run.ID(), context.Cause(ctx))
	}
	o, err := api.OutcomeOf(run.ID(), result, err)
	if err != nil {
		return err
	}
	return w.show(s, o)
}

func (w waiting) show(s streams, o api.Outcome) (err error) {
	switch {
	case w.JSON:
		err = writeJSON(s.out, o)
	case o.Status == client.Completed:
		_, err = fmt.Fprintln(s.out, string(o.Result))
	case o.Status == client.Cancelled: // its error says so
		_, err = fmt.Fprintf(s.err, "pawl: %s: %s\n", o.Instance, diagnose.OneLine(o.Error))
	default:
		_, err = fmt.Fprintf(s.err, "pawl: %s %s: %s\n", o.Instance, o.Status, diagnose.OneLine(o.Error))
	}
	if err == nil && o.Status != client.Completed {
		return settings.ExitCode(settings.ExitFailed)
	}
	return err
}

// because looks at an instance that was waited for in vain.
func because(ctx context.Context, cl *client.Client, id string) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	d, err := cl.Describe(ctx, id)
	if err != nil {
		return ": " + spoken(err)
	}
	if h := diagnose.Obstacle(ctx, cl, d); h != "" {
		return ": " + h
	}
	return ", it is " + standing(d)
}

// tellHindrances says on w what keeps an instance, each thing once, until the function
// that it gives is called, which waits for it.
func tellHindrances(ctx context.Context, w io.Writer, cl *client.Client, id string) (quiet func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(lookAfter)
		defer tick.Stop()
		said := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			d, err := cl.Describe(ctx, id)
			if err != nil {
				continue // who waits is told by the request for the result
			}
			if h := diagnose.Obstacle(ctx, cl, d); h != "" && h != said {
				said = h
				_, _ = fmt.Fprintf(w, "pawl: waiting for %s: %s\n", id, h)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
