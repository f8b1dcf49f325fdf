package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	reportInterval  = 3 * time.Second // between two checks for obstacles during a wait
	describeTimeout = time.Second
)

// waiting contains the flags of commands that can wait for the end of an instance.
type waiting struct {
	Wait    bool          `help:"Wait for the end and show the result. The exit code is 1 if the instance fails."`
	Timeout time.Duration `placeholder:"DURATION" help:"Maximum wait, such as 30s. Default: forever."`
	JSON    bool          `name:"json" help:"Write JSON."`
}

// AfterApply rejects a timeout that is negative or without --wait.
func (w waiting) AfterApply() error {
	switch {
	case w.Timeout < 0:
		return fmt.Errorf("--timeout must be positive (got %s)", w.Timeout)
	case w.Timeout > 0 && !w.Wait:
		return errors.New("--timeout needs a wait")
	}
	return nil
}

// await waits for the end of an instance, and shows its outcome. Unless the instance completed, the exit code is 1.
func (w waiting) await(ctx context.Context, s streams, cl *client.Client, run *client.RawInstance) error {
	var o api.Outcome
	err := w.within(ctx, s, cl, run.ID(), "ended", func(ctx context.Context) error {
		result, err := run.Result(ctx)
		o, err = api.OutcomeOf(run.ID(), result, err) // the failure of an instance, such as a timeout, is no error of the wait
		return err
	})
	if err != nil {
		return err
	}
	return w.show(s, o)
}

// withTimeout returns a context with a timeout; zero is none.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// within calls wait, bounds it by the timeout, and reports obstacles of the instance meanwhile. what completes the sentence "it has not …".
func (w waiting) within(ctx context.Context, s streams, cl *client.Client, id, what string, wait func(context.Context) error) error {
	limited, cancel := withTimeout(ctx, w.Timeout)
	defer cancel()
	stop := reportObstacles(limited, s, cl, id)
	err := wait(limited)
	stop()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%s has not %s within %s%s", id, what, w.Timeout, because(ctx, cl, id))
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted; %s continues: %w", id, context.Cause(ctx))
	}
	return err
}

func (w waiting) show(s streams, o api.Outcome) (err error) {
	switch {
	case w.JSON:
		err = writeJSON(s.out, o)
	case o.Status == client.Completed:
		_, err = fmt.Fprintln(s.out, string(o.Result))
	case o.Status == client.Cancelled: // the error contains the status
		err = s.note("%s: %s", o.Instance, diagnose.OneLine(o.Error))
	default:
		err = s.note("%s %s: %s", o.Instance, o.Status, diagnose.OneLine(o.Error))
	}
	if err == nil && o.Status != client.Completed {
		return settings.ExitCode(settings.ExitFailed)
	}
	return err
}

// because explains why an instance has not ended in time.
func because(ctx context.Context, cl *client.Client, id string) string {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	d, err := cl.Describe(ctx, id)
	if err != nil {
		return ": " + userMessage(err)
	}
	if h := diagnose.Obstacle(ctx, cl, d); h != "" {
		return ": " + h
	}
	text := "; it is " + statusText(d)
	if waits := diagnose.WaitsFor(d); waits != "" {
		text += " and waits for " + waits
	}
	return text
}

// reportObstacles writes what prevents an instance from proceeding to standard error, each obstacle once, until stop is called.
func reportObstacles(ctx context.Context, s streams, cl *client.Client, id string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		last := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			d, err := cl.Describe(ctx, id)
			if err != nil {
				continue // the wait for the result reports it
			}
			if h := diagnose.Obstacle(ctx, cl, d); h != "" && h != last {
				last = h
				_ = s.note("waiting for %s: %s", id, h)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
