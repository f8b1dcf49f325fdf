package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/pkg/history"
)

// Accepted is what INPUTS had stored of a partition at one moment of the clock of its leader.
type Accepted struct {
	At   time.Time        // by the clock of the stream's leader
	Last history.Position // the partition's last input in the stream; zero: it has none
}

// Accepted requests from the stream's leader its time first and the last input of the partition second. So every input that
// was acknowledged by the time At is at or before Last, or was removed from the stream. The errors are those of Attach,
// except that no stream is created: jetstream.ErrStreamNotFound.
func (c *inputStream) Accepted(ctx context.Context, partition int) (Accepted, error) {
	disconnected := c.disconnects.next()
	ctx, release := c.whileConnected(ctx, disconnected)
	defer release()
	a, err := c.accepted(ctx, partition)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Accepted{}, fmt.Errorf("queue: accepted inputs of partition %d: %w", partition, err)
	}
	return a, nil
}

func (c *inputStream) accepted(ctx context.Context, partition int) (Accepted, error) {
	stream, err := c.info(ctx, c.inputs.Name)
	if err != nil {
		return Accepted{}, err
	}
	a := Accepted{At: stream.TimeStamp}
	last, err := c.message(ctx, c.inputs.Name, messageGet{LastFor: c.subj.in(partition)})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return Accepted{}, err
	default:
		a.Last = history.Position{Seq: last.Seq, Time: last.Time.UnixNano()}
	}
	return a, nil
}
