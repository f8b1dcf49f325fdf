package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/pkg/queue"
)

// elsewhere is after how long a task for an activity that this worker does not have
// is offered again: a queue is shared by workers of different builds.
const elsewhere = 2 * time.Second

// maxUnknown is for how many names it is logged that this worker does not have them.
const maxUnknown = 1000

// intake takes the tasks of one queue. It asks the queue for as many as there are free
// places, so that no task waits here while another worker is idle. A run of tasks that
// nobody wants any more is swept from the head of the queue; see sweep.
type intake struct {
	w      *Worker
	name   string
	puller *queue.Puller
	ctx    context.Context //nolint:containedctx // ends with stop
	cancel context.CancelFunc
	wg     sync.WaitGroup

	gone  atomic.Int32  // claims in a row that found nothing to claim
	stale chan struct{} // wakes the sweeper

	givenBack atomic.Int32 // tasks in a row that were given back because their claim could not be answered
	pausing   atomic.Bool  // before the next one is asked for
}

func newIntake(ctx context.Context, w *Worker, name string) (*intake, error) {
	p, err := w.conn.Pull(ctx, name)
	if err != nil {
		return nil, err //nolint:wrapcheck // says which queue
	}
	q := &intake{w: w, name: name, puller: p, stale: make(chan struct{}, 1)}
	q.ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return q, nil
}

func (q *intake) start(places int) {
	q.puller.Want(places)
	q.wg.Go(q.run)
	q.wg.Go(q.sweeper)
}

// stop ends the taking and waits. What was delivered and not taken goes back to the queue.
func (q *intake) stop() {
	q.cancel()
	q.wg.Wait()
	q.puller.Stop()
}

func (q *intake) run() {
	for {
		select {
		case <-q.ctx.Done():
			return
		case d := <-q.puller.Tasks():
			q.take(d)
		}
	}
}

func (q *intake) take(d *queue.Delivery) {
	failpoint.Here("worker.delivered")
	b, ok := q.w.registry.Activity(d.Task.Name)
	if !ok {
		q.refuse(d)
		return
	}
	if q.w.reach.some.Load() && q.w.reach.silent(q.w.conn.PartitionOf(d.Task.Instance)) {
		q.giveBack(d)
		q.freed()
		return
	}
	newTask(q, d, b).bid()
}

// giveBack returns a task to the queue because its lease cannot be claimed here at this moment.
func (q *intake) giveBack(d *queue.Delivery) {
	d.GiveBack()
	q.w.count.unclaimed.Inc()
	q.givenBack.Add(1)
	q.nextAfterPause()
}

// nextAfterPause lets a narrow puller ask for a task, the later the more were given back in a row.
func (q *intake) nextAfterPause() {
	if !q.pausing.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(min(firstPause<<min(q.givenBack.Load(), 16), lastPause), func() {
		q.pausing.Store(false)
		q.puller.Next()
	})
}

// refuse gives back what this worker can not run.
func (q *intake) refuse(d *queue.Delivery) {
	d.NakAfter(elsewhere)
	q.freed()
	q.puller.Next()
	q.w.count.unregistered.Inc()
	q.w.mu.Lock()
	said := q.w.unknown[d.Task.Name] || len(q.w.unknown) >= maxUnknown
	if !said {
		q.w.unknown[d.Task.Name] = true
	}
	q.w.mu.Unlock()
	if !said {
		q.w.log.Warn("a task for an activity that this worker does not have is given back; has any worker of this queue got it?",
			"activity", d.Task.Name, "queue", q.name, "instance", d.Task.Instance)
	}
}

// freed says that a place has become free.
func (q *intake) freed() { q.puller.Want(1) }
