package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// releaseTime is the part of the time until the deadline of Stop that is reserved for releasing leases.
const releaseTime = time.Second

// Stop stops the worker and waits for it. The worker takes no more tasks. Running activities may finish for Config.Drain; then their
// contexts are cancelled with the reason WorkerStopping and their grace periods start. The leases of interrupted activities are released,
// so that other workers can run them at once.
//
// If ctx has a deadline, Stop aims to finish interrupting activities a second before it, and uses that second to release leases. It
// shortens Drain so that the longest grace period still fits, and splits the time evenly between the two if it is too short for both. If
// ctx is cancelled, running activities are interrupted without a grace period.
//
// When Stop returns, nothing of the worker runs except activities that ignored their context; the error names them. A second call waits
// for the first, or until its ctx ends. Stop of a worker that was not started prevents its start. Stop must not be called before Start
// has returned.
func (w *Worker) Stop(ctx context.Context) error {
	if w.phase.CompareAndSwap(created, stopped) {
		w.close()
		return nil
	}
	if !w.phase.CompareAndSwap(taking, stopping) && !w.phase.CompareAndSwap(draining, stopping) {
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
	idle := w.tasks.whenIdle()
	var err error
	if !wait(ctx, idle, w.drainTime(ctx)) {
		err = w.interrupt(ctx, idle)
	}
	w.close()
	if err = errors.Join(err, w.abandonedError()); err != nil {
		w.log.Warn("worker stopped with running activities", "error", err)
		return err
	}
	w.log.Info("worker stopped")
	return nil
}

// errDraining is the error of Ready for a drained worker.
var errDraining = errors.New("worker: drained at the request of an operator: it takes no tasks until its process is started again")

// drain handles an operator's request to drain the worker with this name, and reports whether that is this worker. The worker takes no
// more tasks; running activities may finish. From then on it is not ready, and only a restart of the process lets it take tasks again.
func (w *Worker) drain(name string) bool {
	if name != w.cfg.Name {
		return false
	}
	if w.phase.CompareAndSwap(taking, draining) {
		w.log.Info("worker draining", "running", len(w.tasks.running()))
		for _, q := range w.queues {
			go q.stop() // Stop waits for it
		}
	}
	return true
}

// drainTime returns the time for which running activities may finish before they are cancelled. It may be negative.
func (w *Worker) drainTime(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return w.cfg.Drain
	}
	var grace time.Duration
	for _, t := range w.tasks.running() {
		grace = max(grace, t.grace.period)
	}
	left := time.Until(end) - releaseTime
	return min(w.cfg.Drain, left-min(grace, left/2))
}

// interrupt cancels running activities and waits for their grace periods, as far as the deadline allows, and then until their leases are
// released. idle is closed when no tasks are left.
func (w *Worker) interrupt(ctx context.Context, idle <-chan struct{}) error {
	for _, t := range w.tasks.running() {
		t.state.hold.Cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping, By: w.cfg.Name})
	}
	timeout := time.Duration(math.MaxInt64) // each grace period ends on its own
	if end, ok := ctx.Deadline(); ok {
		timeout = time.Until(end) - releaseTime
	}
	if wait(ctx, idle, timeout) {
		return nil
	}
	for _, t := range w.tasks.running() {
		t.grace.expire()
	}
	if wait(context.WithoutCancel(ctx), idle, releaseTime) {
		return nil
	}
	return fmt.Errorf("worker %s: stopped before redis replied about the last activities; their leases expire", w.cfg.Name)
}

// wait waits until done is closed, for at most timeout and until ctx ends, and reports whether done is closed.
func wait(ctx context.Context, done <-chan struct{}, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
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
