package orchestrator

import (
	"context"
	"sync/atomic"
	"time"
)

// tasksEvery is how often the TASKS stream is reconciled.
const tasksEvery = 500 * time.Millisecond

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

// before returns the time before which all tasks are lost, in Unix ms by the clock; 0: none are.
func (l *tasksLoss) before(c *clock) int64 {
	at := l.at.Load()
	if at == nil {
		return 0
	}
	return c.now() - c.wall.Sub(*at).Milliseconds() + sentSlack
}

// watchTasks looks at the TASKS stream until ctx ends. The loss is recorded before the actors are told, so that one that
// begins at this moment sees either.
func (s *shared) watchTasks(ctx context.Context) {
	watch := s.conn.WatchTasks(s.cfg.Look)
	tick := time.NewTicker(tasksEvery)
	defer tick.Stop()
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
			s.shards.each(func(p *shard) { p.post(message{kind: tasksLost}) })
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reconcile looks at once at every instance that is due within the reconcile interval: those with activities outstanding
// are among them. If the schedule cannot be read, each is reconciled when it is due.
func (a *leases) reconcile() { a.emit(effect{kind: readSchedule, after: a.cfg.Look}) }

func (a *leases) scheduleRead(due []string, err error) {
	if err != nil {
		a.storeFailed("wakeups", err)
		return
	}
	a.schedule.todo = append(a.schedule.todo, due...)
}
