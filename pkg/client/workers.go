package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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
	Concurrency int // of each queue
	Running     int // without the abandoned ones
	Abandoned   []Abandoned
	NotReady    string // why it takes no work at present; empty: it does
	LastError   string // the latest since its start; it may be over
	LastErrorAt time.Time
}

// Abandoned is an activity that runs although its grace period after a cancellation is over.
type Abandoned struct {
	Activity string // its name
	Instance string
	Since    time.Time
}

func workerOf(w request.Worker) WorkerInfo {
	out := WorkerInfo{
		Name: w.Name, Host: w.Host, PID: w.PID, Since: timeOf(w.Since), Activities: w.Activities, Queues: w.Queues, Concurrency: w.Concurrency,
		Running: w.Running, NotReady: w.NotReady, LastError: w.LastError, LastErrorAt: timeOf(w.LastErrorAt),
	}
	for _, a := range w.Abandoned {
		out.Abandoned = append(out.Abandoned, Abandoned{Activity: a.Activity, Instance: a.Instance, Since: timeOf(a.Since)})
	}
	return out
}

// workersWait is how long the replies of workers are collected.
const workersWait = 500 * time.Millisecond

// Workers requests a description from every worker and returns, after half a second, those that answered, by name. A worker that
// is disconnected or too slow is missing. If ctx ends before, the answers so far are returned with its error.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	answers, err := request.Workers(ctx, c.conn, workersWait)
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
