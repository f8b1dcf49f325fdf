package shard

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/timers"
)

// How often the TASKS stream is checked.
const (
	tasksEvery = 500 * time.Millisecond
	tasksIdle  = 2 * time.Second // while no tasks are published
)

// watchTasks detects, until ctx ends, that the TASKS stream has lost its content. TASKS is kept in memory: a server that restarts, or
// an operator who deletes the stream, loses every task that waits for a worker. All partitions then reconcile
// at once, so that a backlog does not wait for the reconcile interval. The loss is recorded before the shards are
// notified, so that a shard that begins at the same time sees the record or receives the message.
func (s *Process) watchTasks(ctx context.Context) {
	watch := s.conn.WatchTasks(s.cfg.ReconcileInterval)
	for {
		checking, stop := context.WithTimeout(ctx, probeTimeout)
		lost, err := watch.Check(checking)
		stop()
		switch {
		case err != nil: // NATS is unreachable or electing a leader; the next check follows
			s.log.Debug("tasks stream not readable", "error", err)
		case !lost.IsZero():
			s.lost.set(lost)
			s.log.Warn("tasks stream lost, reconciling all partitions", "before", lost)
			s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.TasksLost, Body: lost}) })
		}
		every := tasksEvery
		if err == nil && watch.Idle() {
			every = tasksIdle
		}
		if !outage.Sleep(ctx, timers.Until(every)) {
			return
		}
	}
}
