package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Accepted requests the time from the leader of the stream first, and the last input of the partition second. So every input that was
// acknowledged by the time At is at or before Last, or was removed from the stream. The errors are those of Attach, except that no
// stream is created: a missing one is jetstream.ErrStreamNotFound.
//
// The server finds the last message of a partition by comparing all subjects of the stream, which has two for each recent instance. To
// avoid that, the first message after known is requested first, if the stream still has the message at known: a stream grows only at
// its end. The caller must have received all of the partition up to known, which is zero, a position of the reader, or an End.
func (c *inputStream) Accepted(ctx context.Context, partition int, known history.Position) (message.Accepted, error) {
	disconnected := c.disconnects.next()
	ctx, release := c.whileConnected(ctx, disconnected)
	defer release()
	done, err := c.admit(ctx)
	if err != nil {
		return message.Accepted{}, fmt.Errorf("queue: accepted inputs of partition %d: %w", partition, err)
	}
	defer done()
	a, err := c.accepted(ctx, partition, known)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	if err != nil {
		return message.Accepted{}, fmt.Errorf("queue: accepted inputs of partition %d: %w", partition, err)
	}
	return a, nil
}

func (c *inputStream) accepted(ctx context.Context, partition int, known history.Position) (message.Accepted, error) {
	stream, err := c.streams.info(ctx, c.streams.inputs.Name)
	if err != nil {
		return message.Accepted{}, err
	}
	a := message.Accepted{At: stream.TimeStamp, End: history.Position{Seq: stream.State.LastSeq, Time: stream.State.LastTime.UnixNano()}}
	some, err := c.mayHaveLater(ctx, partition, known, a.End)
	if err != nil || !some {
		return a, err
	}
	last, err := c.streams.message(ctx, c.streams.inputs.Name, messageGet{LastFor: c.subj.in(partition)})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return message.Accepted{}, err
	default:
		a.Last = history.Position{Seq: last.Seq, Time: last.Time.UnixNano()}
	}
	return a, nil
}

// mayHaveLater reports whether the partition may have messages after known; end is the end of the stream.
func (c *inputStream) mayHaveLater(ctx context.Context, partition int, known, end history.Position) (bool, error) {
	if known.Seq == 0 || known.Seq > end.Seq {
		return true, nil
	}
	if known != end {
		m, err := c.streams.message(ctx, c.streams.inputs.Name, messageGet{Seq: known.Seq})
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Time.UnixNano() != known.Time {
			return true, nil
		}
		if err != nil {
			return true, err
		}
	}
	_, err := c.streams.message(ctx, c.streams.inputs.Name, messageGet{Seq: known.Seq + 1, NextFor: c.subj.in(partition)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return true, err
}
