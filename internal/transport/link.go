package transport

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/outage"
)

// link contains what all parts of a Conn share: the NATS connection and the settings of the namespace.
type link struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	opts  Options
	subj  subjects
	log   *slog.Logger
	parts int // 0: unknown
	count counters

	outage      *outage.Reporter
	ownOutage   bool // true unless it is shared with other components of the process
	disconnects *disconnects
	fetches     fetches
	partitions  chan struct{} // a token for each partition with outstanding requests to JetStream; see admit

	ctx    context.Context // cancelled by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// streams creates and repairs the two streams of a namespace, and makes requests to JetStream.
type streams struct {
	*link

	inputs, tasks jetstream.StreamConfig // configurations with which lost streams are created again
	mendMu        sync.Mutex
	mended        time.Time // last attempt to repair a stream; under mendMu
}

// inputStream publishes to INPUTS, reads a partition of it, and trims it.
type inputStream struct {
	*link
	streams *streams

	toInputs *publisher
	contact  *contact
}

// taskStream publishes to TASKS and pulls from its queues.
type taskStream struct {
	*link
	streams *streams

	toTasks *publisher
	taskSeq atomic.Uint64 // highest sequence that TASKS has acknowledged
}

// signals are messages of core NATS without replies. Each may be lost, repeated or forged.
type signals struct{ *link }

// requests are messages of core NATS with replies.
type requests struct {
	*link

	unjoined *PermissionError // reason for which the number of partitions is unknown; nil: it is known
	answers  atomic.Value     // string: subject of the latest inbox of OnAnswers
}

// maxPartitionRequests is the maximum number of partitions for which a process makes requests to JetStream concurrently.
//
// nats-server answers such requests one after another, and each is repeated until it is answered or has timed out. If the requests of all
// partitions were made at once, a server that is busy, because many processes start together, would spend its time on requests whose
// callers have timed out and retry: the fleet would never start.
const maxPartitionRequests = 16

// admit waits until the requests of one more partition may be made. Short timeouts should begin after this wait. The returned function must
// be called when the requests are answered.
func (c *link) admit(ctx context.Context) (done func(), err error) {
	select {
	case c.partitions <- struct{}{}:
		return func() { <-c.partitions }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Namespace returns the name that the streams and subjects contain.
func (c *link) Namespace() string { return c.opts.Namespace }

// Partitions returns the number of partitions of INPUTS; 0 if it is unknown, see JoinToPublish.
func (c *link) Partitions() int { return c.parts }

// PartitionOf returns the partition of an instance; -1 if the number of partitions is unknown, see JoinToPublish.
func (c *link) PartitionOf(instance string) int {
	if c.parts == 0 {
		return -1
	}
	return PartitionOf(instance, c.parts)
}

// Connected reports whether messages can be sent. While it is false, requests fail immediately with ErrDisconnected.
func (c *link) Connected() bool { return c.nc.IsConnected() }

// NATS returns the connection on which the Conn was opened.
func (c *link) NATS() *nats.Conn { return c.nc }

// disconnects signals to readers that the connection was lost, even if only for a moment.
type disconnects struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next disconnect
}

func newDisconnects() *disconnects { return &disconnects{ch: make(chan struct{})} }

// next returns a channel that is closed at the next disconnect.
func (l *disconnects) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ch
}

// notify closes the channel of next.
func (l *disconnects) notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.ch)
	l.ch = make(chan struct{})
}

// whileConnected returns a context that ends at a disconnect, with ErrDisconnected as its cause: requests that were sent before are no
// longer answered. The returned function must be called.
func (c *link) whileConnected(ctx context.Context, disconnected <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-disconnected:
			cancel(ErrDisconnected)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}
