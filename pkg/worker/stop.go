package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// releaseTime is the part of Stop's time that is reserved for releasing leases.
const releaseTime = time.Second

// Stop stops the worker. It takes no more tasks; running activities may finish for Config.Drain; then their contexts are cancelled with
// WorkerStopping, and their grace periods begin; the leases of interrupted activities are released.
//
// If ctx has a deadline, Stop ends a second before it: it shortens Drain so that the longest grace period fits, and divides a time
// that is too short for both equally. Stop returns when nothing of the worker runs except activities that ignored their context,
// which the error names. A second Stop waits for the first; Stop of a worker that was not started prevents its start. Start must have
// returned.
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

// errDraining is why a drained worker is not ready.
var errDraining = errors.New("worker: drained at the request of an operator: it takes no tasks until its process is started again")

// drain makes the worker take no more tasks, if it is the one that is named; running activities may finish. The worker is not ready from
// then on, and is to be stopped: nothing lets it take tasks again.
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

// drainTime returns the time that running activities may finish.
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

// interrupt cancels running activities, waits for their grace periods as far as there is time, and until their leases are released.
func (w *Worker) interrupt(ctx context.Context, idle <-chan struct{}) error {
	for _, t := range w.tasks.running() {
		t.state.hold.Cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping, By: w.cfg.Name})
	}
	timeout := time.Duration(math.MaxInt64) // each grace period ends by itself
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
