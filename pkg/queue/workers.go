package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// WorkerInfo is what a worker tells about itself. Times are Unix milliseconds, by the worker's clock.
type WorkerInfo struct {
	Name        string      `json:"name"` // that leases and histories know it by
	Host        string      `json:"host"`
	PID         int         `json:"pid"`
	Since       int64       `json:"since"` // when it was started
	Activities  []string    `json:"activities"`
	Queues      []string    `json:"queues"`
	Concurrency int         `json:"concurrency"` // of each queue
	Running     int         `json:"running"`     // activities, without the abandoned ones
	Abandoned   []Abandoned `json:"abandoned,omitempty"`
	LastError   string      `json:"last_error,omitempty"` // the latest trouble since it was started; it may be over
	LastErrorAt int64       `json:"last_error_at,omitempty"`
	NotReady    string      `json:"not_ready,omitempty"` // why it can not work at the moment; empty: it can
}

// MaxAbandoned is how many abandoned activities a WorkerInfo lists at the most, so that it
// fits into a message.
const MaxAbandoned = 1000

// Abandoned is an activity that runs on although its grace is over.
type Abandoned struct {
	Activity string `json:"activity"` // its name
	Instance string `json:"instance"`
	Since    int64  `json:"since"`
}

const workerFields = 12

func wireWorker(w *wire, i *WorkerInfo) {
	w.str(&i.Name)
	w.str(&i.Host)
	w.count(&i.PID)
	w.int(&i.Since)
	list(w, &i.Activities, (*wire).str)
	list(w, &i.Queues, (*wire).str)
	w.count(&i.Concurrency)
	w.count(&i.Running)
	list(w, &i.Abandoned, func(w *wire, a *Abandoned) {
		w.record(3, func(w *wire) {
			w.str(&a.Activity)
			w.str(&a.Instance)
			w.int(&a.Since)
		})
	})
	w.str(&i.LastError)
	w.int(&i.LastErrorAt)
	w.str(&i.NotReady)
}

// ServeWorkers answers whoever asks which workers there are, until Stop. fn must not
// wait. Of more than MaxAbandoned abandoned activities the first are told.
func (c *Conn) ServeWorkers(fn func() WorkerInfo) (*Subscription, error) {
	return subscribe(c.nc, c.subj.workers(), func(m *nats.Msg) {
		if !c.repliesTo(m.Reply) {
			return
		}
		i := fn()
		i.Abandoned = i.Abandoned[:min(len(i.Abandoned), MaxAbandoned)]
		if err := c.answer(m.Reply, encode(workerFields, func(w *wire) { wireWorker(w, &i) })); err != nil {
			c.log.Debug("a request can not be answered", "subject", m.Subject, "error", err)
		}
	})
}

// AskWorkers asks all workers of the namespace to tell about themselves and gives what
// has come when wait is over, in the order in which it came. Nobody knows how many there
// are: one that is slower than that is missing. If there is none at all, that is known at
// once, and no error. The error is ErrDisconnected, or that of ctx, which may end before.
func (c *Conn) AskWorkers(ctx context.Context, wait time.Duration) ([]WorkerInfo, error) {
	if !c.nc.IsConnected() {
		return nil, ErrDisconnected
	}
	inbox := c.nc.NewInbox()
	answers := make(chan *nats.Msg, 256)
	sub, err := c.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("queue: ask the workers: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, settle := c.whileAllowed(ctx, c.subj.workers())
	defer func() { _ = settle(nil) }()
	if err := c.nc.PublishRequest(c.subj.workers(), inbox, nil); err != nil {
		return nil, fmt.Errorf("queue: ask the workers: %w", err)
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	var all []WorkerInfo
	for {
		select {
		case m := <-answers:
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil, nil
			}
			var i WorkerInfo
			if err := decode("worker", m.Data, func(w *wire) { wireWorker(w, &i) }); err != nil {
				c.ignore(m, err)
				continue
			}
			all = append(all, i)
		case <-over.C:
			return all, nil
		case <-ctx.Done():
			return all, context.Cause(ctx)
		}
	}
}
