package worker

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Large inputs and results are stored as objects: see decision 81. An input is read after the claim; a result is written before its ack.
// At most largeInputs bytes of such inputs, measured decoded, are in memory at a time; an activity whose input would exceed that starts
// when there is room. An input that is larger than largeInputs runs alone.
const (
	largeInputs   = 256 << 20
	objectTimeout = time.Minute
)

// input decodes the input of the activity. While the object store is unavailable it retries, until the lease is lost or the activity is
// cancelled. The caller calls release when the activity has returned.
func (t *task) input(ctx context.Context) (p history.Payload, release func(), err error) {
	size := sealing.OpenedSize(t.task.Payload)
	if size == 0 {
		p, err = t.w.codec().Open(t.task.Payload)
		return p, func() {}, err
	}
	weight := min(int64(size), largeInputs)
	if err := t.w.tasks.large.Acquire(ctx, weight); err != nil {
		return p, func() {}, context.Cause(ctx)
	}
	release = func() { t.w.tasks.large.Release(weight) }
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		p, err = t.w.codec().OpenWith(func(name string, size, _ int) ([]byte, error) {
			return t.w.conn.GetObject(ctx, name, size, transport.FollowerLag, 0)
		}, t.task.Payload)
		if !sealing.Unavailable(err) {
			return p, release, err
		}
		if wait == minBackoff {
			t.log().Warn("input not read from the object store, retrying", "error", err)
		}
		if !outage.Sleep(ctx, wait) {
			return p, release, err
		}
	}
}

// store writes the object of a result, and retries for as long as the worker holds the lease, but at most for transport.MaxStoring. The task
// keeps its slot until then.
func (t *task) store(o sealing.Object) bool {
	o.Owners = []string{t.task.Instance}
	until := time.Now().Add(transport.MaxStoring)
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		ctx, stop := context.WithTimeout(context.Background(), objectTimeout) // not cancelled by Stop: results that were returned are still acked
		err := t.w.conn.PutObject(ctx, o)
		stop()
		if err == nil {
			return true
		}
		if wait == minBackoff {
			t.log().Warn("result not written to the object store, retrying", "error", err)
		}
		time.Sleep(wait)
		cause := t.cause()
		if cause != nil && cause.Reason != cancel.WorkerStopping || !t.state.hold.Trusted() || time.Now().After(until) {
			return false
		}
	}
}

func (w *Worker) codec() *sealing.Codec { return (*sealing.Codec)(w.cfg.Codec) }
