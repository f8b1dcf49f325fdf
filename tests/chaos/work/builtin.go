package work

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
)

// The kinds that use built-in orchestrations: jobs, and schedules that run jobs.
var (
	job = Kind{
		Name: "job", Weight: 3, start: runJob,
		attach: func(c *client.Client, id string) result { return number(client.AttachJob(c, Step, id)) },
		Want:   func(in Input) []string { return []string{strconv.Itoa(in.N + 1)} },
	}
	cron = Kind{
		Name: "cron", Weight: 1, start: startSchedule, attach: attachSchedule,
		Want: func(in Input) []string { return []string{fmt.Sprintf("%d firings", in.N)} },
	}
)

func runJob(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	run, err := client.Run(ctx, c, Step, id, in.N, client.MessageID("start"))
	if err != nil {
		return nil, err
	}
	return number(run), nil
}

func number(run *client.Instance[int]) result {
	return func(ctx context.Context) (string, error) {
		n, err := run.Result(ctx)
		return strconv.Itoa(n), err
	}
}

// startSchedule creates a schedule that ends after N firings, one per second. If an earlier attempt has created it and it
// has already ended, it does nothing.
func startSchedule(ctx context.Context, c *client.Client, id string, in Input) (result, error) {
	err := c.CreateSchedule(ctx, id, client.Schedule{
		Times:     client.Times{Cron: []string{"@every 1s"}},
		Run:       &client.Job{Activity: Step.Name(), Queue: Step.Queue(), Input: []byte(strconv.Itoa(in.N))},
		Remaining: in.N,
	}, client.MessageID("start"))
	if err != nil && !errors.Is(err, client.ErrRefused) {
		return nil, err
	}
	return attachSchedule(c, id), nil
}

func attachSchedule(c *client.Client, id string) result {
	return func(ctx context.Context) (string, error) { return firings(ctx, c, id) }
}

// firings waits for the end of a schedule and of its jobs, and returns the number of firings whose job has the right result.
func firings(ctx context.Context, c *client.Client, id string) (string, error) {
	for {
		text, err := firingsNow(ctx, c, id)
		if err == nil && text != "" {
			return text, nil
		}
		orphan := errors.Is(err, context.Canceled) // the job of a turn that was rolled back is cancelled, and another one replaces it
		if _, failed := errors.AsType[*pawl.Failure](err); failed && !orphan {
			return "", err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		}
	}
}

// firingsNow reads a schedule and its jobs one after another. It returns an error or an empty text if the start is not
// ingested yet, or if Redis was rolled back between two reads to a state before an end that was read, or before a job.
func firingsNow(ctx context.Context, c *client.Client, id string) (string, error) {
	if _, err := client.Attach(c, pawl.NewOrchestration[pawl.None, pawl.None]("pawl.schedule"), id).Result(ctx); err != nil {
		return "", err
	}
	s, err := c.DescribeSchedule(ctx, id)
	if err != nil || int(s.Done) < InputOf(id).N {
		return "", err
	}
	jobs := map[string]bool{}
	for _, f := range s.Recent {
		n, err := client.AttachJob(c, Step, f.Instance).Result(ctx)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.Instance, err)
		}
		if want := InputOf(id).N + 1; n != want {
			return fmt.Sprintf("%s returned %d, want %d", f.Instance, n, want), nil
		}
		jobs[f.Instance] = true
	}
	if int(s.Done) != len(jobs) {
		return fmt.Sprintf("%d firings, %d jobs", s.Done, len(jobs)), nil
	}
	return fmt.Sprintf("%d firings", len(jobs)), nil
}
