package shard

import (
	"context"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/transport"
)

// probeTimeout bounds a request about the TASKS stream. A request that was outstanding when the connection was interrupted is
// never answered, and must not delay the repair of what was lost with the connection.
const probeTimeout = 2 * time.Second

// queueAges reads when the oldest task of a queue was published; callers that overlap share one request.
type queueAges struct {
	conn *transport.Conn
	wg   sync.WaitGroup

	mu      sync.Mutex
	waiting map[string][]func(time.Time, bool, error) // by queue
}

func newQueueAges(conn *transport.Conn) *queueAges {
	return &queueAges{conn: conn, waiting: make(map[string][]func(time.Time, bool, error))}
}

func (o *queueAges) read(ctx context.Context, name string, then func(at time.Time, some bool, err error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[name] = append(o.waiting[name], then)
	if len(o.waiting[name]) > 1 {
		return
	}
	o.wg.Go(func() {
		ctx, stop := context.WithTimeout(ctx, probeTimeout)
		defer stop()
		at, some, err := o.conn.OldestTask(ctx, name)
		o.mu.Lock()
		all := o.waiting[name]
		delete(o.waiting, name)
		o.mu.Unlock()
		for _, f := range all {
			f(at, some, err)
		}
	})
}
