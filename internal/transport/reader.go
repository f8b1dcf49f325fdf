package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	maxBatch  = 256     // messages per batch, and requested messages of a reader
	readAhead = 8 << 20 // bytes that the requests of a reader should not exceed
	minAhead  = 8       // minimum number of requested messages, however large they are
)

// Reader reads the inputs of one partition, from Attach to the first irregularity.
//
//	server ──≤ 256 requested──▶ buffered ──one batch──▶ Batches
//
// Nothing is acknowledged: the position to continue from is stored with the state. Inputs that the caller has not received prevent the
// server from sending more, so a slow owner does not consume memory.
type Reader struct {
	c            *inputStream
	partition    int
	consumer     string
	gap          *Gap
	disconnected <-chan struct{}
	fetch        *fetch

	batches      chan []message.Input
	more         chan struct{} // signals that inputs were buffered
	done         chan struct{} // closed when the reader has ended
	receivedUpTo atomic.Uint64 // all inputs up to this sequence were received by the caller, or precede the start point

	stopOnce sync.Once
	stop     chan struct{}

	mu          sync.Mutex
	buffer      []message.Input
	size        int    // size of a message in bytes, a moving average
	requested   int    // number of messages that are requested or buffered
	lastArrived uint64 // sequence of the last message that has arrived, or before the start point
	behind      uint64 // sequence of the partition's last message, if it had not arrived at the last call of Tail; otherwise 0
	number      uint64 // delivery number of the consumer's last message
	err         error
}

func (c *inputStream) newReader(partition int, consumer string, begin startPoint, disconnected <-chan struct{}) (*Reader, error) {
	r := &Reader{c: c, partition: partition, consumer: consumer, gap: begin.gap, disconnected: disconnected,
		batches: make(chan []message.Input), more: make(chan struct{}, 1), done: make(chan struct{}), stop: make(chan struct{})}
	r.receivedUpTo.Store(begin.seq - 1)
	r.lastArrived = begin.seq - 1
	r.requested = maxBatch
	f, err := newFetch(c.nc, c.streams.apiSubject("CONSUMER.MSG.NEXT."+c.streams.inputs.Name+"."+consumer), readExpires, readExpires, r.take)
	if err != nil {
		c.dropConsumer(consumer)
		return nil, err
	}
	r.fetch = f
	f.contact = c.contact
	f.want(maxBatch)
	c.fetches.add(f)
	go r.run()
	return r, nil
}

// Batches delivers the inputs in order, in batches of all that are buffered, at most 256. It is never closed; see Done.
func (r *Reader) Batches() <-chan []message.Input { return r.batches }

// Done is closed when the reader has ended. Inputs that were not received by then are read again by the next reader.
func (r *Reader) Done() <-chan struct{} { return r.done }

// Err returns the reason for which the reader has ended: ErrClosed after Stop, otherwise an error that matches ErrDetached. Before the end
// it returns nil.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Gap returns the gap of messages that had been removed before they were read; nil if there is none.
func (r *Reader) Gap() *Gap { return r.gap }

// Stop ends the reader and waits for its goroutine.
func (r *Reader) Stop() {
	r.stopOnce.Do(func() { close(r.stop) })
	<-r.done
}

// Tail returns the end of the stream as a position to continue from, if the caller has received everything of its partition up to there;
// otherwise ok is false. The owner of an idle partition moves the stored position there once it has ingested what it received, so that
// the stream can be trimmed.
//
// The end is read first and the partition's last message second. So a message up to that end is visible to the second request, and was
// received or is missing.
//
// If a message is missing at two calls, although requests are outstanding, it is no longer delivered: the server of the consumer is alive,
// but its replica of the stream does not follow the leader. In that case the reader ends, and the next one may be placed on another
// server. The caller should wait for a while between two calls.
func (r *Reader) Tail(ctx context.Context) (pos history.Position, ok bool, err error) {
	fail := func(err error) (history.Position, bool, error) {
		return history.Position{}, false, fmt.Errorf("queue: tail of partition %d: %w", r.partition, err)
	}
	done, err := r.c.admit(ctx)
	if err != nil {
		return fail(err)
	}
	defer done()
	stream, err := r.c.streams.info(ctx, r.c.streams.inputs.Name)
	if err != nil {
		return fail(err)
	}
	end := stream.State
	last, err := r.c.streams.message(ctx, r.c.streams.inputs.Name, messageGet{LastFor: r.c.subj.in(r.partition)})
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fail(err)
	}
	if r.Err() != nil { // the stream may have been replaced in the meantime
		return fail(r.Err())
	}
	r.checkStall(last.Seq)
	if end.LastSeq == 0 || last.Seq > r.receivedUpTo.Load() {
		return history.Position{}, false, nil
	}
	return history.Position{Seq: end.LastSeq, Time: end.LastTime.UnixNano()}, true, nil
}

// errStalled ends a reader whose consumer does not deliver messages that the stream has.
var errStalled = errors.New("the consumer delivers nothing, but the stream has more messages")

// checkStall ends the reader if the message that was missing at the last call still is. last is the sequence of the partition's last message.
func (r *Reader) checkStall(last uint64) {
	outstanding := r.fetch.outstanding()
	r.mu.Lock()
	stalled := outstanding && r.behind > r.lastArrived
	if r.behind = 0; last > r.lastArrived {
		r.behind = last
	}
	r.mu.Unlock()
	if stalled {
		r.fetch.stop(errStalled)
	}
}

// Lagging reports whether the last call of Tail found a message that had not arrived.
func (r *Reader) Lagging() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.behind > 0
}

// errMisfiled is the problem of an input that the stream has assigned to a partition by a previous number of partitions: see Resize.
var errMisfiled = errors.New("the stream assigned it to a partition by a previous number of partitions: send it again")

// take handles a message that has arrived.
func (r *Reader) take(m *nats.Msg, requested bool) {
	pos, number, err := positionOf(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && (!requested || number != r.number+1) {
		err = fmt.Errorf("delivery %d follows delivery %d", number, r.number)
	}
	if err != nil {
		r.fetch.stop(err)
		return
	}
	in := decodeInput(m, r.c.subj.root, pos)
	if in.Problem == nil && r.partition != AllPartitions && PartitionOf(in.Instance, r.c.parts) != r.partition {
		in.Problem = errMisfiled
	}
	if in.Reply != "" && !r.c.RepliesTo(in.Reply) { // the stream has already accepted and acknowledged the input
		r.c.log.Warn("reply subject not allowed, input taken without reply", "instance", text.Cut(in.Instance, maxHeader), "reply", in.Reply)
		in.Reply = ""
	}
	r.c.count.received.Add(1)
	if in.Problem != nil {
		r.c.count.unusable.Add(1)
	}
	r.number, r.lastArrived = number, pos.Seq
	r.size += (len(m.Data) - r.size) / 8
	r.buffer = append(r.buffer, in)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// run delivers batches until something ends the reader.
func (r *Reader) run() {
	var batch []message.Input
	for {
		if batch == nil {
			batch = r.next()
		}
		var out chan []message.Input // nil while nothing is buffered
		if batch != nil {
			out = r.batches
		}
		select {
		case out <- batch:
			r.receivedUpTo.Store(batch[len(batch)-1].Pos.Seq)
			r.refill(len(batch))
			batch = nil
		case <-r.more:
		case <-r.disconnected:
			r.fetch.stop(ErrDisconnected)
			r.disconnected = nil
		case <-r.stop:
			r.end(ErrClosed)
			return
		case <-r.fetch.done:
			r.end(fmt.Errorf("%w from partition %d: %w", ErrDetached, r.partition, r.fetch.reason()))
			return
		}
	}
}

// refill requests as many messages as were received, or fewer while messages are large.
func (r *Reader) refill(taken int) {
	r.mu.Lock()
	room := maxBatch
	if r.size > 0 {
		room = min(maxBatch, max(minAhead, readAhead/r.size))
	}
	n := room - (r.requested - taken)
	r.requested += max(n, 0) - taken
	r.mu.Unlock()
	if n > 0 {
		r.fetch.want(n)
	}
}

// next takes a batch from the buffer.
func (r *Reader) next() []message.Input {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.buffer), maxBatch)
	if n == 0 {
		return nil
	}
	batch := r.buffer[:n:n]
	r.buffer = r.buffer[n:]
	return batch
}

func (r *Reader) end(reason error) {
	r.fetch.close(false)
	r.c.dropConsumer(r.consumer)
	r.mu.Lock()
	r.err = reason
	r.mu.Unlock()
	if !errors.Is(reason, ErrClosed) {
		r.c.count.resets.Add(1)
	}
	close(r.done)
}
