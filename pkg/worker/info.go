package worker

import (
	"cmp"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// health records the errors of requests to Redis. The zero value is healthy.
type health struct {
	failing atomic.Pointer[error] // of the last reply; nil: success
	last    atomic.Pointer[lastError]
}

// lastError is the last error of a worker.
type lastError struct {
	err error
	at  time.Time
}

// redisReplied records the result of a request.
func (h *health) redisReplied(err error) {
	if err != nil {
		h.failing.Store(&err)
		h.last.Store(&lastError{err: err, at: time.Now()})
	} else if h.failing.Load() != nil {
		h.failing.Store(nil)
	}
}

// info returns the description of the worker for pawl workers.
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
		i.Used = append(i.Used, request.Used{Queue: name, Slots: used[name], Of: w.slots(name)})
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
