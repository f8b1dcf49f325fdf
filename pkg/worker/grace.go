package worker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/lease"
)

// watch lets an activity whose context is done have its grace. It has a goroutine of its
// own, which the task's waits for.
func (t *task) watch() {
	defer close(t.watched)
	told := time.Now()
	t.w.mu.Lock()
	t.told = told
	t.w.mu.Unlock()
	if t.grace > 0 {
		timer := time.NewTimer(t.grace)
		defer timer.Stop()
		select {
		case <-t.back:
		case <-t.expired: // the worker's Stop has no more time
		case <-timer.C:
		}
	}
	t.abandon()
}

// afterTold is how long ago the context was done; 0 if it has only just been.
func (t *task) afterTold() time.Duration {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.told.IsZero() {
		return 0
	}
	return time.Since(t.told)
}

// abandon gives an activity up, unless it has returned. Its place is free from here on;
// the goroutine stays until it ends by itself.
func (t *task) abandon() {
	select {
	case <-t.back:
		return
	default:
	}
	w := t.w
	w.mu.Lock()
	t.abandoned = true
	w.abandoned[t] = struct{}{}
	many := len(w.abandoned)
	w.mu.Unlock()
	t.expire()
	t.from.freed()

	after, cause := t.afterTold(), t.cause()
	w.mourn(t)
	if many == w.cfg.MaxAbandoned+1 {
		w.log.Error("too many abandoned activities still run; the worker is not ready any more", "error", w.crowded())
	}
	switch {
	case cause != nil && cause.Reason == cancel.WorkerStopping:
		t.giveBack(t.count.abandoned)
		return
	case cause != nil && cause.Reason != cancel.LeaseLost:
		t.report(lease.Abandoned, after)
	}
	t.end(t.count.abandoned)
}

// mourn logs that an activity was abandoned, with its stack. The activities that are
// abandoned at the same moment share one look at the goroutines, for it stops the world.
func (w *Worker) mourn(t *task) {
	w.mourners.Lock()
	w.mourned = append(w.mourned, t)
	if w.mourning {
		w.mourners.Unlock()
		return
	}
	w.mourning = true
	for len(w.mourned) > 0 {
		now := w.mourned
		w.mourned = nil
		w.mourners.Unlock()
		stacks := stacksOf(now)
		for _, t := range now {
			w.log.Error("activity abandoned: it ignores that its context is done",
				"activity", t.task.Name, "of", t.ref.String(), "grace", t.grace, "cause", fmt.Sprint(t.cause()), "stack", stacks[t.token])
		}
		w.mourners.Lock()
	}
	w.mourning = false
	w.mourners.Unlock()
}

// crowded says that too many abandoned activities still run; nil if not.
func (w *Worker) crowded() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.abandoned) <= w.cfg.MaxAbandoned {
		return nil
	}
	names := make(map[string]int)
	worst := ""
	for t := range w.abandoned {
		n := t.task.Name
		names[n]++
		if names[n] > names[worst] || names[n] == names[worst] && n < worst {
			worst = n
		}
	}
	return fmt.Errorf("worker: %d activities still run although their grace is over, and %d may; %d of them are %s: let it end with its context, and start the worker anew",
		len(w.abandoned), w.cfg.MaxAbandoned, names[worst], worst)
}

// Abandoned lists the activities that still run although their grace is over, oldest first.
func (w *Worker) Abandoned() []Running {
	w.mu.Lock()
	var out []Running
	for t := range w.abandoned {
		r := t.seen()
		r.Since = t.told.Add(t.grace)
		out = append(out, r)
	}
	w.mu.Unlock()
	slices.SortFunc(out, func(a, b Running) int { return a.Since.Compare(b.Since) })
	return out
}

// forsaken is the number of abandoned activities that still run.
func (w *Worker) forsaken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.abandoned)
}

// left names the activities that a stopped worker leaves behind; nil if there are none.
func (w *Worker) left() error {
	rest := w.Abandoned()
	if len(rest) == 0 {
		return nil
	}
	names := make([]string, len(rest))
	for i, r := range rest {
		names[i] = fmt.Sprintf("%s (%s)", r.Name, r.Ref)
	}
	return fmt.Errorf("worker %s: stopped with %d activities that ignore their context, and end with the process: %s",
		w.cfg.Name, len(rest), strings.Join(names, ", "))
}
