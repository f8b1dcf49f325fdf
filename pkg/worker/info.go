package worker

import (
	"cmp"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// health records the results of requests to Redis. The zero value is healthy.
type health struct {
	failing atomic.Pointer[error]     // error of the last reply; nil: it succeeded
	last    atomic.Pointer[lastError] // the most recent error, even if requests have succeeded since
}

// lastError is an error of a worker, with its time.
type lastError struct {
	err error
	at  time.Time
}

// redisReplied records the result of a request; err is nil if it succeeded.
func (h *health) redisReplied(err error) {
	if err != nil {
		h.failing.Store(&err)
		h.last.Store(&lastError{err: err, at: time.Now()})
	} else if h.failing.Load() != nil {
		h.failing.Store(nil)
	}
}

// info describes the worker, for the command pawl workers.
func (w *Worker) info() request.Worker {
	running := w.tasks.running()
	i := request.Worker{
		Name: w.cfg.Name, Host: hostname(), PID: os.Getpid(), Since: w.startedAt.UnixMilli(),
		Activities: w.registry.Activities(), Queues: w.registry.Queues(), Concurrency: w.cfg.Concurrency, Running: len(running),
	}
	for _, t := range running {
		i.Oldest = append(i.Oldest, request.Task{Activity: t.task.Name, Instance: t.ref.Instance, Since: t.since.UnixMilli()})
	}
	slices.SortFunc(i.Oldest, func(a, b request.Task) int { return cmp.Compare(a.Since, b.Since) })
	used := w.tasks.slotsByQueue()
	for _, name := range i.Queues {
		i.Used = append(i.Used, request.Used{Queue: name, Slots: used[name], Total: w.slots(name)})
	}
	for _, r := range w.Abandoned() {
		i.Abandoned = append(i.Abandoned, request.Task{Activity: r.Name, Instance: r.Instance, Since: r.Since.UnixMilli(), Stack: r.Stack})
	}
	last := w.health.last.Load()
	if at, err := w.keeper.LastFailure(); err != nil && (last == nil || at.After(last.at)) {
		last = &lastError{err: err, at: at}
	}
	if last != nil {
		i.LastError, i.LastErrorAt = last.err.Error(), last.at.UnixMilli()
	}
	if err := w.notReady(); err != nil {
		i.NotReady = err.Error()
	}
	return i
}
