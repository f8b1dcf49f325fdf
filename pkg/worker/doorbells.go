package worker

import (
	"sync"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/transport"
)

// doorbellSender sends doorbells for inboxes that were empty. Pending doorbells of one partition are sent as one message, without delay.
// If a doorbell is lost, the owner finds the completion after at most two seconds.
type doorbellSender struct {
	conn *transport.Conn
	wake chan struct{}
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	pending map[int][]message.Doorbell // by partition
}

func newDoorbellSender(conn *transport.Conn) *doorbellSender {
	s := &doorbellSender{
		conn: conn, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		pending: make(map[int][]message.Doorbell),
	}
	go s.run()
	return s
}

// add queues a doorbell. It does not block.
func (s *doorbellSender) add(of leases.Ref, a leases.Acked) {
	partition, b := of.Part, message.Doorbell{Instance: of.Instance, Effect: of.Effect, Proof: a.Proof}
	if len(a.Element.Body) < eventcodec.MaxDoorbellElement {
		b.Element = a.Element.Encode()
	}
	if len(b.Element) > eventcodec.MaxDoorbellElement { // Encode adds a header
		b.Element = nil
	}
	s.mu.Lock()
	s.pending[partition] = append(s.pending[partition], b)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stop sends the pending doorbells, ends the goroutine and waits for it.
func (s *doorbellSender) stop() {
	close(s.quit)
	<-s.done
	s.send()
}

func (s *doorbellSender) run() {
	defer close(s.done)
	for {
		select {
		case <-s.quit:
			return
		case <-s.wake:
			s.send()
		}
	}
}

func (s *doorbellSender) send() {
	s.mu.Lock()
	now := s.pending
	s.pending = make(map[int][]message.Doorbell, len(now))
	s.mu.Unlock()
	for partition, doorbells := range now {
		_ = s.conn.SendDoorbells(partition, doorbells) // reconciliation finds the inbox if the doorbell is lost
		failpoint.Here("worker.notified")
	}
}
