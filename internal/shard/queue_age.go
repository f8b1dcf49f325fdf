package shard

import (
	"context"
	"sync"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// probeTimeout is how long a question about the TASKS stream may take. One that was under way when the connection lapsed is
// never answered, and what was lost with the connection must not wait for it.
const probeTimeout = 2 * time.Second

// queueAges asks how old the oldest task of a queue is, once for all who want to know at the same moment.
type queueAges struct {
	conn *queue.Conn
	wg   sync.WaitGroup

	mu     sync.Mutex
	asking map[string][]func(time.Time, bool, error)
}

func newQueueAges(conn *queue.Conn) *queueAges {
	return &queueAges{conn: conn, asking: make(map[string][]func(time.Time, bool, error))}
}

func (o *queueAges) ask(ctx context.Context, name string, then func(at time.Time, some bool, err error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asking[name] = append(o.asking[name], then)
	if len(o.asking[name]) > 1 {
		return
	}
	o.wg.Go(func() {
		ctx, stop := context.WithTimeout(ctx, probeTimeout)
		defer stop()
		at, some, err := o.conn.OldestTask(ctx, name)
		o.mu.Lock()
		all := o.asking[name]
		delete(o.asking, name)
		o.mu.Unlock()
		for _, f := range all {
			f(at, some, err)
		}
	})
}
