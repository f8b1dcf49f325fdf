package worker

import (
	"os"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// ailment is a trouble that the worker had.
type ailment struct {
	err error
	at  time.Time
}

// info is what the worker tells to whoever asks which workers there are.
func (w *Worker) info() queue.WorkerInfo {
	i := queue.WorkerInfo{
		Name: w.cfg.Name, Host: hostname(), PID: os.Getpid(), Since: w.since.UnixMilli(),
		Activities: w.registry.Activities(), Queues: w.registry.Queues(), Concurrency: w.cfg.Concurrency, Running: len(w.running()),
	}
	for _, r := range w.Abandoned() {
		i.Abandoned = append(i.Abandoned, queue.Abandoned{Activity: r.Name, Instance: r.Instance, Since: r.Since.UnixMilli()})
	}
	last := w.last.Load()
	if at, err := w.keeper.LastFailure(); err != nil && (last == nil || at.After(last.at)) {
		last = &ailment{err: err, at: at}
	}
	if last != nil {
		i.LastError, i.LastErrorAt = last.err.Error(), last.at.UnixMilli()
	}
	if err := w.unready(); err != nil {
		i.NotReady = err.Error()
	}
	return i
}
