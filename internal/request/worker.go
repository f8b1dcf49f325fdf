package request

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
)

// Worker describes a worker. Times are Unix milliseconds by the clock of the worker.
type Worker struct {
	Name        string // as in leases and histories
	Host        string
	PID         int
	Since       int64 // start of the process
	Activities  []string
	Queues      []string
	Concurrency int // slots of each queue
	Running     int // running activities, without the abandoned ones
	Used        []Used
	Oldest      []Task // the activities that have been running for the longest time, oldest first
	Abandoned   []Task
	LastError   string // the latest error since the start of the process; its cause may be repaired
	LastErrorAt int64
	NotReady    string // why the worker takes no work at present; empty: it does
}

// Used is the number of slots in use for a queue.
type Used struct {
	Queue string
	Slots int // in use
	Total int // in total
}

// Task is a running activity. In Worker.Abandoned its grace period is over.
type Task struct {
	Activity string // name of the activity
	Instance string
	Since    int64
	Stack    string // goroutine stack of an abandoned activity
}

// Bounds of a reply, so that it fits into one message.
const (
	maxOldest    = 50 // running activities
	maxAbandoned = 1000
	maxStacks    = 20      // abandoned activities with a stack
	maxStack     = 4 << 10 // bytes of a stack
)

func (w *Worker) fields(c *wire.Codec) {
	c.String(&w.Name)
	c.String(&w.Host)
	c.Count(&w.PID)
	c.Int(&w.Since)
	wire.List(c, &w.Activities, (*wire.Codec).String)
	wire.List(c, &w.Queues, (*wire.Codec).String)
	c.Count(&w.Concurrency)
	c.Count(&w.Running)
	wire.List(c, &w.Used, func(c *wire.Codec, u *Used) {
		c.Record(func(c *wire.Codec) {
			c.String(&u.Queue)
			c.Count(&u.Slots)
			c.Count(&u.Total)
		})
	})
	wire.List(c, &w.Abandoned, task)
	c.String(&w.LastError)
	c.Int(&w.LastErrorAt)
	c.String(&w.NotReady)
	wire.List(c, &w.Oldest, task)
}

func task(c *wire.Codec, t *Task) {
	c.Record(func(c *wire.Codec) {
		c.String(&t.Activity)
		c.String(&t.Instance)
		c.Int(&t.Since)
		c.String(&t.Stack)
	})
}

// ServeWorker answers requests for the workers of the namespace until Stop. fn must not block. At most the first 1,000 abandoned
// activities are reported.
func ServeWorker(conn *transport.Conn, fn func() Worker) (*transport.Subscription, error) {
	return conn.ServeWorkers(func() []byte {
		w := fn()
		w.Oldest = w.Oldest[:min(len(w.Oldest), maxOldest)]
		w.Abandoned = w.Abandoned[:min(len(w.Abandoned), maxAbandoned)]
		for i := range w.Abandoned {
			if w.Abandoned[i].Stack = text.Cut(w.Abandoned[i].Stack, maxStack); i >= maxStacks {
				w.Abandoned[i].Stack = ""
			}
		}
		return wire.Encode(w.fields)
	})
}

// Workers requests a description from every worker of the namespace and returns those that arrive within wait, in the order of
// their arrival. Errors: transport.ErrDisconnected, transport.ErrPermission, and the error of ctx, together with the replies so far.
func Workers(ctx context.Context, conn *transport.Conn, wait time.Duration) ([]Worker, error) {
	var all []Worker
	err := conn.RequestWorkers(ctx, wait, func(b []byte) error {
		var w Worker
		if err := decode("worker", b, w.fields); err != nil {
			return err
		}
		all = append(all, w)
		return nil
	})
	return all, err
}
