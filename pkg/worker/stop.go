package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// stopGrace is how long activities have to return after they were told that the worker stops.
const stopGrace = time.Second

// Stop ends the worker: no more tasks are taken; what runs may finish until Drain, or
// until shortly before ctx ends; then it is cancelled with WorkerStopping, and its
// leases are given back. Stop returns when nothing of the worker runs any more. The
// error names activities that ignored their context until ctx ended; only their
// goroutines are left. A second Stop waits for the first; one of a worker that was not
// started only makes sure that it never will be. Start must have returned.
func (w *Worker) Stop(ctx context.Context) error {
	if w.phase.CompareAndSwap(fresh, stopped) {
		w.close()
		return nil
	}
	if !w.phase.CompareAndSwap(taking, stopping) {
		select {
		case <-w.ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, q := range w.queues {
		q.stop()
	}
	idle := w.whenIdle()
	drain := w.cfg.Drain
	if end, ok := ctx.Deadline(); ok {
		drain = min(drain, time.Until(end)-2*stopGrace)
	}
	var err error
	if !wait(ctx, idle, drain) {
		err = w.interrupt(ctx, idle)
	}
	w.close()
	if err != nil {
		w.log.Warn("worker stopped, and not everything in good order", "error", err)
	} else {
		w.log.Info("worker stopped")
	}
	return err
}

// interrupt cancels what runs, and gives back the leases of what does not return.
func (w *Worker) interrupt(ctx context.Context, idle <-chan struct{}) error {
	for _, t := range w.running() {
		t.hold.Cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping, By: w.cfg.Name})
	}
	if wait(ctx, idle, stopGrace) {
		return nil
	}
	var answers sync.WaitGroup
	for _, t := range w.running() {
		answers.Add(1)
		t.giveUp(answers.Done)
	}
	answers.Wait()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	var names []string
	for _, t := range w.running() {
		names = append(names, fmt.Sprintf("%s (%s)", t.task.Name, t.ref))
	}
	if len(names) == 0 {
		return fmt.Errorf("worker %s: stopped before Redis had answered about the last activities; their leases expire: %w",
			w.cfg.Name, context.Cause(ctx))
	}
	return fmt.Errorf("worker %s: stopped with %d activities that ignore their context: %s",
		w.cfg.Name, len(names), strings.Join(names, ", "))
}

// close ends everything that Start began, as far as it came.
func (w *Worker) close() {
	if w.hints != nil {
		w.hints.Stop()
	}
	if w.keeper != nil {
		w.keeper.Stop()
	}
	if w.runner != nil {
		w.runner.Close()
	}
	if w.bells != nil {
		w.bells.stop()
	}
	if w.uncount != nil {
		w.uncount()
	}
	if w.conn != nil {
		w.conn.Close()
	}
	w.count.unregister()
	w.phase.Store(stopped)
	close(w.ended)
}

func wait(ctx context.Context, done <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// enter counts a task in; leave counts it out.
func (w *Worker) enter(t *task) {
	w.mu.Lock()
	w.tasks[t] = struct{}{}
	w.mu.Unlock()
}

func (w *Worker) leave(t *task) {
	w.mu.Lock()
	delete(w.tasks, t)
	if w.idle != nil && len(w.tasks) == 0 {
		close(w.idle)
		w.idle = nil
	}
	w.mu.Unlock()
}

// whenIdle gives what is closed when the last task has left. Tasks must not enter any more.
func (w *Worker) whenIdle() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := make(chan struct{})
	if len(w.tasks) == 0 {
		close(idle)
	} else {
		w.idle = idle
	}
	return idle
}

// running lists the tasks whose handler has not returned.
func (w *Worker) running() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*task
	for t := range w.tasks {
		if t.hold != nil && !t.returned {
			out = append(out, t)
		}
	}
	return out
}
