package worker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/lease"
)

// watch waits until the handler returns or its grace period ends, and then abandons the task unless the handler has returned. It starts
// when the handler's context ends, on a goroutine of its own that the task's goroutine joins.
func (t *task) watch() {
	defer close(t.grace.watched)
	t.w.tasks.cancelled(t)
	if cause := t.cause(); cause != nil && !cause.At.IsZero() {
		promx.Observe(t.w.count.cancelled, max(0, time.Since(cause.At).Seconds()), promx.Exemplar(t.task.Headers))
	}
	if t.grace.period > 0 {
		timer := time.NewTimer(t.grace.period)
		defer timer.Stop()
		select {
		case <-t.grace.returned:
		case <-t.grace.expired: // Stop has run out of time
		case <-timer.C:
		}
	}
	t.abandon()
}

// sinceCancelled returns the time since the end of the context, or 0 if the watcher has not started.
func (t *task) sinceCancelled() time.Duration {
	t.w.tasks.mu.Lock()
	defer t.w.tasks.mu.Unlock()
	if t.state.cancelledAt.IsZero() {
		return 0
	}
	return time.Since(t.state.cancelledAt)
}

// abandon gives up waiting for the handler, unless it has returned. It frees the slot; the goroutine remains until the handler returns.
func (t *task) abandon() {
	select {
	case <-t.grace.returned:
		return
	default:
	}
	w := t.w
	count := w.tasks.abandon(t)
	t.grace.expire()
	t.freeSlot()

	after, cause := t.sinceCancelled(), t.cause()
	w.abandonedLog.add(t)
	if count == w.cfg.MaxAbandoned+1 {
		w.log.Error("too many abandoned activities, worker not ready", "error", w.tooManyAbandoned())
	}
	switch {
	case cause != nil && cause.Reason == cancel.WorkerStopping:
		t.release(t.count.abandoned)
		return
	case cause != nil && cause.Reason != cancel.LeaseLost:
		t.report(lease.Abandoned, after)
	}
	t.end(t.count.abandoned)
}

// abandonedLog logs abandoned activities with their stacks. Activities that are abandoned at the same time share one goroutine profile,
// because taking it stops the world. The zero value is ready to use.
type abandonedLog struct {
	mu      sync.Mutex
	pending []*task
	writing bool // a goroutine is logging the pending tasks
}

func (l *abandonedLog) add(t *task) {
	l.mu.Lock()
	l.pending = append(l.pending, t)
	if l.writing {
		l.mu.Unlock()
		return
	}
	l.writing = true
	for len(l.pending) > 0 {
		now := l.pending
		l.pending = nil
		l.mu.Unlock()
		stacks := stacksOf(now)
		now[0].w.tasks.keepStacks(now, stacks)
		for _, t := range now {
			t.log().Error("activity abandoned, context ignored", "grace", t.grace.period, "cause", fmt.Sprint(t.cause()), "stack", stacks[t.token])
		}
		l.mu.Lock()
	}
	l.writing = false
	l.mu.Unlock()
}

// tooManyAbandoned returns an error if more abandoned activities run than Config.MaxAbandoned.
func (w *Worker) tooManyAbandoned() error {
	w.tasks.mu.Lock()
	defer w.tasks.mu.Unlock()
	if len(w.tasks.abandoned) <= w.cfg.MaxAbandoned {
		return nil
	}
	counts := make(map[string]int)
	top := ""
	for t := range w.tasks.abandoned {
		n := t.task.Name
		counts[n]++
		if counts[n] > counts[top] || counts[n] == counts[top] && n < top {
			top = n
		}
	}
	return fmt.Errorf("worker: %d abandoned activities run, more than the maximum of %d; %d of them are %s: make it end with its context, and restart the worker",
		len(w.tasks.abandoned), w.cfg.MaxAbandoned, counts[top], top)
}

// Abandoned lists the activities that still run after the end of their grace period, oldest first. It is safe for concurrent use.
func (w *Worker) Abandoned() []Running {
	w.tasks.mu.Lock()
	var out []Running
	for t := range w.tasks.abandoned {
		r := t.describe()
		r.Since = t.state.cancelledAt.Add(t.grace.period)
		out = append(out, r)
	}
	w.tasks.mu.Unlock()
	slices.SortFunc(out, func(a, b Running) int { return a.Since.Compare(b.Since) })
	return out
}

// abandonedError returns an error that names the abandoned activities still running, or nil if there are none.
func (w *Worker) abandonedError() error {
	abandoned := w.Abandoned()
	if len(abandoned) == 0 {
		return nil
	}
	names := make([]string, len(abandoned))
	for i, r := range abandoned {
		names[i] = fmt.Sprintf("%s (activity %d of %s, execution %d)", r.Name, r.Activity, r.Instance, r.Execution)
	}
	return fmt.Errorf("worker %s: stopped with %d activities that ignore their context and end with the process: %s",
		w.cfg.Name, len(abandoned), strings.Join(names, ", "))
}
