package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/transport"
)

// otherWorkerDelay is the redelivery delay of a task that this worker cannot run, because it has no handler for the activity or no key
// for its input. Workers of different builds may share a queue.
const otherWorkerDelay = 2 * time.Second

// intake takes the tasks of one queue. It requests as many tasks as there are free slots, so that no task waits here while another worker
// is idle. A run of cancelled tasks is swept from the head of the queue; see sweep.
type intake struct {
	w      *Worker
	name   string
	puller *transport.Puller
	ctx    context.Context //nolint:containedctx // ends with stop
	cancel context.CancelFunc
	wg     sync.WaitGroup

	slots     freeSlots
	stopLocal func()
	once      sync.Once // runs stop

	gone      atomic.Int32  // consecutive claims whose lease was gone
	sweepSoon chan struct{} // wakes the sweeper

	returned atomic.Int32 // consecutive tasks that were returned because their claims were not answered
	backoff  atomic.Bool  // a backoff is in progress, after which the next task is requested
}

func newIntake(ctx context.Context, w *Worker, name string) (*intake, error) {
	p, err := w.conn.Pull(ctx, name)
	if err != nil {
		return nil, err //nolint:wrapcheck // names the queue
	}
	q := &intake{w: w, name: name, puller: p, sweepSoon: make(chan struct{}, 1)}
	q.ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return q, nil
}

func (q *intake) start(n int) {
	q.puller.Request(q.slots.divide(n, q.w.cfg.Local != nil))
	q.stopLocal = q.w.conn.ServeLocal(q.name, q.reserve)
	q.wg.Go(q.run)
	q.wg.Go(q.sweeper)
}

// stop stops taking tasks and waits for the goroutines. Delivered tasks that were not taken return to the queue.
func (q *intake) stop() {
	q.once.Do(func() {
		if q.stopLocal != nil {
			q.stopLocal()
		}
		q.cancel()
		q.wg.Wait()
		q.puller.Stop()
	})
}

func (q *intake) run() {
	for {
		select {
		case <-q.ctx.Done():
			return
		case d := <-q.puller.Tasks():
			q.puller.Request(q.slots.delivered())
			q.take(d)
		}
	}
}

func (q *intake) take(d *transport.Delivery) {
	failpoint.Here("worker.delivered")
	a, ok := q.w.registry.Activity(d.Task.Name)
	if !ok {
		q.returnUnregistered(d)
		return
	}
	if err := q.w.codec().CanOpen(d.Task.Payload); err != nil {
		q.returnSealed(d, err)
		return
	}
	if q.w.nodes.impaired.Load() && q.w.nodes.silent(q.w.conn.PartitionOf(d.Task.Instance)) {
		q.returnTask(d)
		q.freeSlot()
		return
	}
	t := newTask(q, d.Task, a)
	t.message = d
	q.w.tasks.add(t)
	t.sendClaim()
}

// returnTask returns a task to the queue because its lease cannot be claimed from here at present.
func (q *intake) returnTask(d *transport.Delivery) {
	d.Return()
	q.w.count.unclaimed.Inc()
	q.returned.Add(1)
	q.nextAfterBackoff()
}

// nextAfterBackoff allows a narrowed puller to request one task after a backoff. The backoff doubles with each consecutive returned task.
func (q *intake) nextAfterBackoff() {
	if !q.backoff.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(min(minPullBackoff<<min(q.returned.Load(), 16), maxPullBackoff), func() {
		q.backoff.Store(false)
		q.puller.Next()
	})
}

// returnUnregistered leaves a task to other workers because this worker has no handler for its activity.
func (q *intake) returnUnregistered(d *transport.Delivery) {
	q.leaveToOthers(d)
	if q.w.tasks.firstUnregistered(d.Task.Name) {
		q.w.log.Warn("no handler registered for activity, task returned", "activity", d.Task.Name, "queue", q.name, "instance", d.Task.Instance)
	}
}

// returnSealed leaves a task to other workers because its input is encrypted with a key that this worker does not have.
func (q *intake) returnSealed(d *transport.Delivery, err error) {
	q.leaveToOthers(d)
	if q.w.tasks.firstUnregistered(err.Error()) {
		q.w.log.Warn("input not decrypted, task returned", "activity", d.Task.Name, "queue", q.name, "instance", d.Task.Instance, "error", err)
	}
}

// leaveToOthers returns a task that this worker cannot run, with a delay, and frees its slot.
func (q *intake) leaveToOthers(d *transport.Delivery) {
	d.NakAfter(otherWorkerDelay)
	q.freeSlot()
	q.puller.Next()
	q.w.count.unregistered.Inc()
}

// freeSlot makes a slot available for the next task.
func (q *intake) freeSlot() { q.puller.Request(q.slots.freed()) }
