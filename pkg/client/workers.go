package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// WorkerInfo is what a worker tells about itself.
type WorkerInfo = queue.WorkerInfo

// Abandoned is an activity that runs on in a worker although its grace is over.
type Abandoned = queue.Abandoned

// workersWait is how long answers of workers are waited for: they are given without a look at any store.
const workersWait = 500 * time.Millisecond

// Workers asks which workers there are and gives, after half a second, those that have
// answered, by name. One that is cut off from NATS, or too slow, is missing: whether it
// lives can not be known from here. If ctx ends before, what has come is given with its error.
func (c *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	all, err := c.conn.AskWorkers(ctx, workersWait)
	slices.SortFunc(all, func(a, b WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	if err != nil {
		return all, fmt.Errorf("client: workers: %w", err)
	}
	return all, nil
}
