package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/request"
)

// WorkerInfo describes a worker. Times are by the clock of the worker, UTC; zero: none.
type WorkerInfo struct {
	Name        string
	Host        string
	PID         int
	Since       time.Time // time of its start
	Activities  []string
	Queues      []string
	Concurrency int               // maximum number of running activities per queue
	Running     int               // number of running activities, without the abandoned ones
	Oldest      []RunningActivity // running activities, at most 50, the longest-running first
	Abandoned   []RunningActivity // activities that run after the end of their grace period
	NotReady    string            // reason why it takes no tasks at present; empty: it takes tasks
	LastError   string            // the latest error since its start, which may be resolved
	LastErrorAt time.Time
}

// RunningActivity is a running or abandoned activity.
type RunningActivity struct {
	Activity string // name of the activity
	Instance string
	Since    time.Time // time of its claim; in WorkerInfo.Abandoned, the end of its grace period
	Stack    string    // for the first 20 of WorkerInfo.Abandoned: its stack when it was abandoned
}

func workerOf(w request.Worker) WorkerInfo {
	out := WorkerInfo{
		Name: w.Name, Host: w.Host, PID: w.PID, Since: timeOf(w.Since), Activities: w.Activities, Queues: w.Queues, Concurrency: w.Concurrency,
		Running: w.Running, NotReady: w.NotReady, LastError: w.LastError, LastErrorAt: timeOf(w.LastErrorAt),
	}
	running := func(t request.Task) RunningActivity {
		return RunningActivity{Activity: t.Activity, Instance: t.Instance, Since: timeOf(t.Since), Stack: t.Stack}
	}
	out.Oldest, out.Abandoned = convert(w.Oldest, running), convert(w.Abandoned, running)
	return out
}

// DrainWorker makes a worker take no more tasks; its running activities may finish. The worker is not ready from then on, and only a
// restart of its process lets it take tasks again. Errors: ErrNotFound if no worker with the name answers within two seconds;
// queue.ErrPermission if the user does not have the role operator.
func (c fleet) DrainWorker(ctx context.Context, name string) error {
	within, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := c.client.conn.RequestDrain(within, name)
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: no worker named %s has answered", ErrNotFound, name)
	}
	if err != nil {
		return fmt.Errorf("client: drain %s: %w", name, err)
	}
	return nil
}

const (
	drainTimeout   = 2 * time.Second        // for the answer of a worker
	workersTimeout = 500 * time.Millisecond // for which replies of workers are collected
)

// Workers requests a description from every worker, and returns those of the workers that answer within half a second, sorted by name.
// Disconnected and slow workers are missing. If ctx ends before that, it returns the answers so far together with the error of ctx.
func (c fleet) Workers(ctx context.Context) ([]WorkerInfo, error) {
	answers, err := request.Workers(ctx, c.client.conn, workersTimeout)
	all := convert(answers, workerOf)
	slices.SortFunc(all, func(a, b WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	if err != nil {
		return all, fmt.Errorf("client: workers: %w", err)
	}
	return all, nil
}
