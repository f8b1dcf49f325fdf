package worker

import (
	"sync"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

// ringer rings the doorbells of inboxes that were empty. What is at hand travels as one
// message a partition; nothing waits for company. A bell that is lost costs two seconds.
type ringer struct {
	conn *queue.Conn
	wake chan struct{}
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	waiting map[int][]queue.Bell
}

func newRinger(conn *queue.Conn) *ringer {
	r := &ringer{
		conn: conn, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		waiting: make(map[int][]queue.Bell),
	}
	go r.run()
	return r
}

// ring returns at once.
func (r *ringer) ring(of lease.Ref, a lease.Acked) {
	partition, b := of.Part, queue.Bell{Instance: of.Instance, Effect: of.Effect, Proof: a.Proof}
	if len(a.Element.Body) < history.MaxDoorbellElement {
		b.Element = a.Element.Encode()
	}
	if len(b.Element) > history.MaxDoorbellElement { // with its head
		b.Element = nil
	}
	r.mu.Lock()
	r.waiting[partition] = append(r.waiting[partition], b)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop rings what is waiting, and waits for that.
func (r *ringer) stop() {
	close(r.quit)
	<-r.done
	r.send()
}

func (r *ringer) run() {
	defer close(r.done)
	for {
		select {
		case <-r.quit:
			return
		case <-r.wake:
			r.send()
		}
	}
}

func (r *ringer) send() {
	r.mu.Lock()
	now := r.waiting
	r.waiting = make(map[int][]queue.Bell, len(now))
	r.mu.Unlock()
	for partition, bells := range now {
		_ = r.conn.Ring(partition, bells) // the look finds what was not rung
		failpoint.Here("worker.rung")
	}
}
