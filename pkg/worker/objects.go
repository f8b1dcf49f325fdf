package worker

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Large inputs and results are objects: see decision 81. An input is read behind the claim, and a result is written before its ack. The
// worker has at most largeInputs bytes of such inputs at one time, as they are when they are opened: an activity with another one begins when there is room. A larger one runs
// alone.
const (
	largeInputs   = 256 << 20
	objectTimeout = time.Minute
)

// largeRoom counts the bytes.
type largeRoom struct{ *semaphore.Weighted }

func newLargeRoom() largeRoom { return largeRoom{semaphore.NewWeighted(largeInputs)} }

// input opens the input of the activity. While the object store is unavailable, it tries again until the lease is lost, or the activity
// cancelled. release is called when the activity has returned.
func (t *task) input(ctx context.Context) (p history.Payload, release func(), err error) {
	size := pawlcodec.OpenedSize(t.task.Payload)
	if size == 0 {
		p, err = t.w.cfg.Codec.Open(t.task.Payload)
		return p, func() {}, err
	}
	weight := min(int64(size), largeInputs)
	if err := t.w.tasks.large.Acquire(ctx, weight); err != nil {
		return p, func() {}, context.Cause(ctx)
	}
	release = func() { t.w.tasks.large.Release(weight) }
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		p, err = t.w.cfg.Codec.OpenWith(func(name string, size, _ int) ([]byte, error) {
			return t.w.conn.GetObject(ctx, name, size, queue.FollowerLag, 0)
		}, t.task.Payload)
		if !pawlcodec.Unavailable(err) {
			return p, release, err
		}
		if wait == minBackoff {
			t.log().Warn("input not read from the object store, retrying", "error", err)
		}
		if !outage.Pause(ctx, wait) {
			return p, release, err
		}
	}
}

// store writes the object of a result, and tries again as long as the worker holds the lease. The task keeps its slot meanwhile.
func (t *task) store(o pawlcodec.Object) bool {
	o.Owners = []string{t.task.Instance}
	until := time.Now().Add(queue.MaxStoring)
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		ctx, stop := context.WithTimeout(context.Background(), objectTimeout) // a worker that stops acknowledges what has returned
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
