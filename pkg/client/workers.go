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
	Since       time.Time // its start
	Activities  []string
	Queues      []string
	Concurrency int               // of each queue
	Running     int               // without the abandoned ones
	Oldest      []RunningActivity // activities that run: up to 50, the longest first
	Abandoned   []RunningActivity
	NotReady    string // why it takes no work at present; empty: it does
	LastError   string // the latest since its start; it may be over
	LastErrorAt time.Time
}

// RunningActivity is an activity that runs; in WorkerInfo.Abandoned its grace period after a cancellation is over.
type RunningActivity struct {
	Activity string // its name
	Instance string
	Since    time.Time
	Stack    string // of one in WorkerInfo.Abandoned, of the first 20: where its code was when it was abandoned
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

// DrainWorker makes a worker take no more tasks; its running activities may finish. It is not ready from then on, and its process is to be
// stopped or started again: nothing lets it take tasks again. Errors: ErrNotFound if no worker of that name answers within two
// seconds; queue.ErrPermission for a user that is no operator.
func (c fleet) DrainWorker(ctx context.Context, name string) error {
	within, cancel := context.WithTimeout(ctx, drainWait)
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

// drainWait is how long a worker may take to answer.
const drainWait = 2 * time.Second

// workersWait is how long the replies of workers are collected.
const workersWait = 500 * time.Millisecond

// Workers requests a description from every worker and returns, after half a second, those that answered, by name. A worker that
// is disconnected or too slow is missing. If ctx ends before, the answers so far are returned with its error.
func (c fleet) Workers(ctx context.Context) ([]WorkerInfo, error) {
	answers, err := request.Workers(ctx, c.client.conn, workersWait)
	all := make([]WorkerInfo, len(answers))
	for i, w := range answers {
		all[i] = workerOf(w)
	}
	slices.SortFunc(all, func(a, b WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	if err != nil {
		return all, fmt.Errorf("client: workers: %w", err)
	}
	return all, nil
}
