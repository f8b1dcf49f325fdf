package shard

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// demandWait is how long the answers of workers are collected.
const demandWait = 500 * time.Millisecond

// demand reports how much work a task queue has. The stream is read first, so that a task claimed in between is counted twice rather
// than not at all, and an autoscaler stops no worker that has work.
func (qs *queries) demand(ctx context.Context, queue string) (request.Reply, error) {
	backlog, err := qs.process.conn.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := request.Workers(ctx, qs.process.conn, demandWait)
	if err != nil {
		return nil, err
	}
	r := &request.QueueDemand{Unclaimed: backlog[queue]}
	for _, w := range workers {
		for _, u := range w.Used {
			if u.Queue == queue {
				r.Workers++
				r.Claimed += uint64(max(0, u.Slots))
				r.Slots += uint64(max(0, u.Total))
			}
		}
	}
	return r, nil
}
