package worker

import (
	"context"
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
// places, so that no task waits here while another worker is idle.
type intake struct {
	w      *Worker
	name   string
	puller *queue.Puller
	quit   chan struct{}
	done   chan struct{} // nil until started
}

func newIntake(ctx context.Context, w *Worker, name string) (*intake, error) {
	p, err := w.conn.Pull(ctx, name)
	if err != nil {
		return nil, err //nolint:wrapcheck // says which queue
	}
	return &intake{w: w, name: name, puller: p, quit: make(chan struct{})}, nil
}

func (q *intake) start(places int) {
	q.done = make(chan struct{})
	q.puller.Want(places)
	go q.run()
}

// stop ends the taking and waits. What was delivered and not taken goes back to the queue.
func (q *intake) stop() {
	close(q.quit)
	if q.done != nil {
		<-q.done
	}
	q.puller.Stop()
}

func (q *intake) run() {
	defer close(q.done)
	for {
		select {
		case <-q.quit:
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
	newTask(q, d, b).bid()
}

// refuse gives back what this worker can not run.
func (q *intake) refuse(d *queue.Delivery) {
	d.NakAfter(elsewhere)
	q.freed()
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
