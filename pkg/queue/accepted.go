package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/pkg/history"
)

// Accepted is what the inputs stream had accepted for a partition at a moment of its own clock.
type Accepted struct {
	At   time.Time        // by the clock of the stream's leader
	Last history.Position // the partition's last input in the stream; zero: it has none
}

// Accepted asks the stream's leader for its time first and for the partition's last input second. So every input that was
// acknowledged by the time At is at or before Last, or was removed from the stream. The errors are those of Attach, except
// that no stream is created: jetstream.ErrStreamNotFound.
func (c *Conn) Accepted(ctx context.Context, partition int) (Accepted, error) {
	lapse := c.lapses.next()
	ctx, release := c.whileConnected(ctx, lapse)
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

func (c *Conn) accepted(ctx context.Context, partition int) (Accepted, error) {
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
