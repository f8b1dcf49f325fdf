package shard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/timers"
)

// How often the TASKS stream is reconciled.
const (
	tasksEvery = 500 * time.Millisecond
	tasksCalm  = 2 * time.Second // while no tasks are published
)

// tasksLoss records when the TASKS stream has lost its content last. TASKS is kept in memory: a server that is restarted, or
// an operator who deletes the stream, loses every task that waits for a worker. The detection has all partitions
// reconcile at once, so that a backlog does not wait for the reconcile interval.
//
// It is safe for concurrent use.
type tasksLoss struct {
	at atomic.Pointer[time.Time] // everything published before it is gone; nil: nothing is known to be lost
}

// within reports whether tasks were lost less than d ago.
func (l *tasksLoss) within(d time.Duration) bool {
	at := l.at.Load()
	return at != nil && time.Since(*at) < d
}

// time returns when tasks were lost last; zero: nothing is known to be lost.
func (l *tasksLoss) time() time.Time {
	if at := l.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// watchTasks looks at the TASKS stream until ctx ends. The loss is recorded before the shards are notified, so that one that
// begins at this moment sees either.
func (s *Process) watchTasks(ctx context.Context) {
	watch := s.conn.WatchTasks(s.cfg.ReconcileInterval)
	for {
		asking, stop := context.WithTimeout(ctx, probeTimeout)
		lost, err := watch.Check(asking)
		stop()
		switch {
		case err != nil: // NATS is away, or elects a leader: it is asked again
			s.log.Debug("tasks stream not readable", "error", err)
		case !lost.IsZero():
			s.lost.at.Store(&lost)
			s.log.Warn("tasks stream lost, reconciling all partitions", "before", lost)
			s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.TasksLost, Body: lost}) })
		}
		every := tasksEvery
		if err == nil && watch.Calm() {
			every = tasksCalm
		}
		if !outage.Pause(ctx, timers.Until(every)) {
			return
		}
	}
}
