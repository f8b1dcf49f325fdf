package transport

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/history"
)

// busy is a server whose JetStream is that of another server, and that replies only when the test permits it.
type busy struct {
	front *harness

	mu        sync.Mutex
	requested map[string]bool // the inboxes of the requests that arrived
	closed    chan struct{}   // requests are answered once it is closed
}

func newBusy(t *testing.T) *busy {
	t.Helper()
	b := &busy{front: &harness{t: t, port: -1, plain: true}, requested: make(map[string]bool), closed: make(chan struct{})}
	b.front.start()
	t.Cleanup(b.front.stop)
	close(b.closed)
	here, there := b.front.dial(), newHarness(t).dial()
	var answers sync.WaitGroup
	_, err := here.Subscribe("$JS.API.>", func(m *nats.Msg) {
		b.mu.Lock()
		b.requested[m.Reply] = true
		permitted := b.closed
		b.mu.Unlock()
		answers.Go(func() {
			<-permitted
			if r, err := there.RequestMsgWithContext(soon(t), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err == nil {
				_ = here.PublishMsg(&nats.Msg{Subject: m.Reply, Header: r.Header, Data: r.Data})
			}
		})
	})
	ok(t, err)
	ok(t, here.Flush()) // the server receives the subscription before the first request
	t.Cleanup(answers.Wait)
	return b
}

// stall holds all replies back until the returned function is called.
func (b *busy) stall() (answer func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.requested = make(chan struct{}), make(map[string]bool)
	return func() { close(b.closed) }
}

func (b *busy) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requested)
}

// A server that is slow because of many requests does not become faster by repetitions: when every partition repeated its requests until
// they timed out, a fleet that started on a busy machine never finished starting.
func TestConcurrentRequestsOfPartitionsAreBounded(t *testing.T) {
	const partitions = 64
	b := newBusy(t)
	c := b.front.open(Options{Partitions: partitions})
	answer := b.stall()
	var all sync.WaitGroup
	var failed atomic.Int64
	for p := range partitions {
		all.Go(func() {
			for {
				_, err := c.Accepted(soon(t), p, history.Position{})
				if err == nil {
					return
				}
				if failed.Add(1) > 100*partitions {
					t.Error(err)
					return
				}
			}
		})
	}
	// A request that has timed out admits another one before it is counted here.
	maxRequests := 0
	eventually(t, "some have timed out", func() bool {
		n := b.requests()
		if failed.Load() > 0 {
			return true
		}
		maxRequests = max(maxRequests, n)
		return false
	})
	if maxRequests > 2*maxPartitionRequests {
		t.Errorf("%d partitions requested at a time", maxRequests)
	}
	answer()
	all.Wait()
}
