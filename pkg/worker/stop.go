package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// lastSecond is what Stop keeps of its time for giving leases back.
const lastSecond = time.Second

// Stop ends the worker: no more tasks are taken; what runs may finish until Drain; then it
// is cancelled with WorkerStopping and has its grace; the leases of what was interrupted
// are given back. If ctx has a deadline all of that ends a second before it: Drain is
// shortened so that the longest grace of what runs fits in, but of a time that is too short
// for both each gets a half. Stop returns when nothing of the worker runs any more but
// the activities that ignored their context: the error names them. A second Stop waits for the
// first; one of a worker that was not started only makes sure that it never will be. Start
// must have returned.
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
	var err error
	if !wait(ctx, idle, w.drain(ctx)) {
		err = w.interrupt(ctx, idle)
	}
	w.close()
	if err = errors.Join(err, w.left()); err != nil {
		w.log.Warn("worker stopped, and not everything in good order", "error", err)
		return err
	}
	w.log.Info("worker stopped")
	return nil
}

// drain is how long what runs may finish.
func (w *Worker) drain(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return w.cfg.Drain
	}
	var grace time.Duration
	for _, t := range w.running() {
		grace = max(grace, t.grace)
	}
	left := time.Until(end) - lastSecond
	return min(w.cfg.Drain, left-min(grace, left/2))
}

// interrupt cancels what runs, lets it have its grace as far as there is time, and waits
// until every lease was given back.
func (w *Worker) interrupt(ctx context.Context, idle <-chan struct{}) error {
	for _, t := range w.running() {
		t.hold.Cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping, By: w.cfg.Name})
	}
	most := time.Duration(math.MaxInt64) // every grace ends by itself
	if end, ok := ctx.Deadline(); ok {
		most = time.Until(end) - lastSecond
	}
	if wait(ctx, idle, most) {
		return nil
	}
	for _, t := range w.running() {
		t.expire()
	}
	if wait(context.WithoutCancel(ctx), idle, lastSecond) {
		return nil
	}
	return fmt.Errorf("worker %s: stopped before Redis had answered about the last activities; their leases expire", w.cfg.Name)
}

// close ends everything that Start began, as far as it came.
func (w *Worker) close() {
	if w.asked != nil {
		w.asked.Stop()
	}
	if w.hints != nil {
		w.hints.Stop()
	}
	if w.reach != nil {
		w.reach.stop()
	}
	if w.reports != nil {
		w.reports.stop()
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
	if w.reported != nil {
		w.reported()
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

// running lists the tasks whose handler has not returned and is waited for.
func (w *Worker) running() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*task
	for t := range w.tasks {
		if t.hold != nil && !t.returned && !t.abandoned {
			out = append(out, t)
		}
	}
	return out
}
