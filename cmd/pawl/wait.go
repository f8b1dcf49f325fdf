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
	reportInterval  = 3 * time.Second // between two checks for obstacles while waiting
	describeTimeout = time.Second
)

// waiting has the flags that start and get share.
type waiting struct {
	Wait    bool          `help:"Wait for the end and show the result; exit code 1 if the instance fails."`
	Timeout time.Duration `placeholder:"DURATION" help:"Maximum time of a wait, such as 30s. Default: forever."`
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

// await waits for the end, shows it, and makes a failed instance an exit code.
func (w waiting) await(ctx context.Context, s streams, cl *client.Client, run *client.RawInstance) error {
	var o api.Outcome
	err := w.within(ctx, s, cl, run.ID(), "ended", func(ctx context.Context) error {
		result, err := run.Result(ctx)
		o, err = api.OutcomeOf(run.ID(), result, err) // that of an instance that has failed by a timeout is no error of the wait
		return err
	})
	if err != nil {
		return err
	}
	return w.show(s, o)
}

// within waits for what an instance does, at most for the timeout, and reports obstacles meanwhile.
func (w waiting) within(ctx context.Context, s streams, cl *client.Client, id, what string, wait func(context.Context) error) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if w.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, w.Timeout)
	}
	defer cancel()
	stop := reportObstacles(limited, s.err, cl, id)
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
	case o.Status == client.Cancelled: // its error names the status
		_, err = fmt.Fprintf(s.err, "pawl: %s: %s\n", o.Instance, diagnose.OneLine(o.Error))
	default:
		_, err = fmt.Fprintf(s.err, "pawl: %s %s: %s\n", o.Instance, o.Status, diagnose.OneLine(o.Error))
	}
	if err == nil && o.Status != client.Completed {
		return settings.ExitCode(settings.ExitFailed)
	}
	return err
}

// because describes the obstacle of an instance that has not ended in time.
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

// reportObstacles writes to w what prevents an instance from proceeding, each obstacle once, until stop is called.
func reportObstacles(ctx context.Context, w io.Writer, cl *client.Client, id string) (stop func()) {
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
				continue // the request for the result reports it
			}
			if h := diagnose.Obstacle(ctx, cl, d); h != "" && h != last {
				last = h
				_, _ = fmt.Fprintf(w, "pawl: waiting for %s: %s\n", id, h)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
