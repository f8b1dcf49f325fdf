package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl/pkg/history"
)

// AllPartitions is the partition of a reader that reads the whole stream, in the order of the stream.
const AllPartitions = -1

// attachTimeout bounds an Attach whose context has no deadline.
const attachTimeout = 15 * time.Second

// startPoint is where a reader starts.
type startPoint struct {
	seq uint64 // sequence of the first message to read
	gap *Gap
}

// Attach reads the inputs of a partition, in order, from the position that is stored with its state (the zero position:
// from the beginning). It compares that position with the stream first:
//
//   - the stream has a message with that sequence and time: continue after it;
//   - the stream begins after that sequence, so it was trimmed: continue, and if the
//     next message is gone too, Reader.Gap reports that;
//   - anything else (the stream was deleted, restored or has lost its tail, and its
//     sequences may have restarted): begin with the first message that is strictly
//     later than the position's time.
//
// A stream that does not exist is created again. Any later error, missed heartbeat or disconnect ends the reader; its
// caller attaches again. ctx bounds the attaching, not the reading. An Attach takes at most 15 s once it is admitted: a process attaches
// to at most 16 partitions concurrently.
func (c *inputStream) Attach(ctx context.Context, partition int, after history.Position) (*Reader, error) {
	disconnected := c.disconnects.next() // first, so that no later disconnect is missed
	if !c.Connected() {                  // all partitions retry, twice a second
		c.observe("read inputs", ErrDisconnected)
		return nil, ErrDisconnected
	}
	ctx, release := c.whileConnected(ctx, disconnected)
	defer release()
	r, err := c.attachInTurn(ctx, partition, after, disconnected)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	c.observe("read inputs", err)
	if err != nil {
		return nil, fmt.Errorf("queue: attach to partition %d after %d: %w", partition, after.Seq, err)
	}
	return r, nil
}

func (c *inputStream) attachInTurn(ctx context.Context, partition int, after history.Position, disconnected <-chan struct{}) (*Reader, error) {
	done, err := c.admit(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	r, err := c.attach(ctx, partition, after, disconnected)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = c.streams.mend(ctx, c.streams.inputs); err == nil {
			r, err = c.attach(ctx, partition, after, disconnected)
		}
	}
	return r, err
}

func (c *inputStream) attach(ctx context.Context, partition int, after history.Position, disconnected <-chan struct{}) (*Reader, error) {
	if partition != AllPartitions && (partition < 0 || partition >= c.parts) {
		return nil, fmt.Errorf("there are %d partitions", c.parts)
	}
	before, err := c.streams.info(ctx, c.streams.inputs.Name)
	if err != nil {
		return nil, err
	}
	begin, err := c.findStart(ctx, before.State, after)
	if err != nil {
		return nil, err
	}
	name, err := c.createReader(ctx, begin.consumer(c.subj.in(partition)))
	if err != nil {
		return nil, c.explain(err)
	}
	// The stream may have been replaced before the consumer was created.
	now, err := c.streams.info(ctx, c.streams.inputs.Name)
	if err == nil && (!now.Created.Equal(before.Created) || now.State.LastSeq < before.State.LastSeq) {
		err = fmt.Errorf("%w: the stream was replaced in the meantime", ErrDetached)
	}
	if err != nil {
		c.dropConsumer(name)
		return nil, c.explain(err)
	}
	if begin.gap != nil {
		c.count.gaps.Add(1) // the caller logs it: see Reader.Gap
	}
	return c.newReader(partition, name, begin, disconnected)
}

// createReader creates the consumer of a reader. It chooses the name, so that a repeated request does not create a second consumer. A
// cluster places a consumer on one server and does not move it. While the cluster has not yet detected that this server has failed,
// requests with that name are not answered. So another name is tried after a timeout, which doubles with each attempt.
func (c *inputStream) createReader(ctx context.Context, cfg jetstream.ConsumerConfig) (name string, err error) {
	for within := placeTimeout; ; within *= 2 {
		cfg.Name = nuid.Next()
		placed, cancel := context.WithTimeout(ctx, within)
		placed, settle := c.whileAllowed(placed, c.streams.apiSubject("CONSUMER.CREATE."+c.streams.inputs.Name+"."+cfg.Name))
		_, err = repeated(placed, createAgain, func(ctx context.Context) (jetstream.Consumer, error) {
			return c.js.CreateConsumer(ctx, c.streams.inputs.Name, cfg)
		})
		err = settle(err)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return cfg.Name, err
		}
		c.dropConsumer(cfg.Name)
	}
}

// FirstAfter returns the sequence of the first message after a stored position, as Attach finds it, and the gap before it, if any.
func (c *inputStream) FirstAfter(ctx context.Context, after history.Position) (seq uint64, gap *Gap, err error) {
	info, err := c.streams.info(ctx, c.streams.inputs.Name)
	if err != nil {
		return 0, nil, fmt.Errorf("queue: state of the inputs stream: %w", err)
	}
	p, err := c.findStart(ctx, info.State, after)
	if err != nil {
		return 0, nil, fmt.Errorf("queue: find the message after %d in the inputs stream: %w", after.Seq, err)
	}
	return p.seq, p.gap, nil
}

// findStart determines where a reader starts.
func (c *inputStream) findStart(ctx context.Context, st jetstream.StreamState, after history.Position) (startPoint, error) {
	first := st.FirstSeq
	if st.Msgs == 0 {
		first = st.LastSeq + 1
	}
	if after.Seq < first && after.Seq <= st.LastSeq {
		p := startPoint{seq: after.Seq + 1}
		if first > after.Seq+1 {
			p.seq = first
			p.gap = &Gap{After: after, First: first}
		}
		return p, nil
	}
	same, err := c.anchored(ctx, st, after)
	if err != nil {
		return startPoint{}, err
	}
	if same {
		return startPoint{seq: after.Seq + 1}, nil
	}
	c.log.Warn("inputs stream was replaced, continuing by time",
		"after", after.Seq, "time", time.Unix(0, after.Time).UTC(), "first", st.FirstSeq, "last", st.LastSeq)
	seq, err := c.streams.firstLater(ctx, st, after.Time)
	return startPoint{seq: seq}, err
}

// firstLater returns the first sequence whose message is later than a time in Unix nanoseconds, or the sequence after the stream's last
// one. It is a binary search, because the times of a stream ascend.
func (c *streams) firstLater(ctx context.Context, st jetstream.StreamState, than int64) (uint64, error) {
	low, high := max(st.FirstSeq, 1), st.LastSeq+1
	for low < high {
		mid := low + (high-low)/2
		m, err := c.message(ctx, c.inputs.Name, messageGet{Seq: mid, NextFor: ">"}) // mid itself may be deleted
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			high = mid
		case err != nil:
			return 0, err
		case m.Time.UnixNano() > than:
			high = mid
		default:
			low = m.Seq + 1
		}
	}
	return low, nil
}

// anchored reports whether the message of the stream at p.Seq has the time p.Time.
func (c *inputStream) anchored(ctx context.Context, st jetstream.StreamState, p history.Position) (bool, error) {
	if p.Seq == 0 || p.Seq > st.LastSeq {
		return p.Seq == 0 && p.Time == 0, nil
	}
	m, err := c.streams.message(ctx, c.streams.inputs.Name, messageGet{Seq: p.Seq})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return m.Time.UnixNano() == p.Time, nil
}

// consumer returns the configuration of a consumer in memory, without acknowledgements, which the server deletes when it has been unused
// for a minute.
func (p startPoint) consumer(filter string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       p.seq,
		FilterSubject:     filter,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: time.Minute,
		MemoryStorage:     true,
		Replicas:          1,
	}
}

// dropConsumer deletes a consumer before it expires. It does not wait.
func (c *inputStream) dropConsumer(name string) {
	if c.nc.IsConnected() {
		_ = c.nc.Publish(c.streams.apiSubject("CONSUMER.DELETE."+c.streams.inputs.Name+"."+name), nil)
	}
}
