package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	publishPatience = 30 * time.Second       // of a PublishInput whose context has no deadline
	publishPause    = 100 * time.Millisecond // between its attempts
	noStreamTries   = 3                      // a stream without a leader looks like no stream for a moment
)

// PublishInput publishes an input and waits until the stream has it; seq is its
// sequence there. If in has an ID, an attempt whose fate is unknown is repeated
// until ctx is done (without a deadline: for 30 s), which is safe because a repeat
// of an ID takes no effect. Without an ID such an attempt is the end.
//
// Errors: ErrBadInstance, ErrBadName, ErrUnknownKind, ErrMalformed, ErrTooLarge before
// anything is sent; ErrStreamFull and ErrNoStream when it was not accepted; ErrTimeout,
// ErrDisconnected and ctx's error when that is unknown.
func (c *Conn) PublishInput(ctx context.Context, in OutInput) (seq uint64, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, publishPatience)
		defer cancel()
	}
	for try := 1; ; try++ {
		seq, err = c.publishOnce(ctx, in)
		again := in.ID != "" && (errors.Is(err, ErrTimeout) || errors.Is(err, ErrDisconnected) || errors.Is(err, ErrBusy))
		again = again || errors.Is(err, ErrNoStream) && try < noStreamTries
		if err == nil || !again {
			return seq, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("queue: publish %s of %s, %d attempts: %w (last: %w)", in.Kind, in.Instance, try, ctx.Err(), err)
		case <-time.After(publishPause):
		}
	}
}

func (c *Conn) publishOnce(ctx context.Context, in OutInput) (uint64, error) {
	type end struct {
		seq uint64
		err error
	}
	ended := make(chan end, 1)
	c.PublishInputAsync(in, func(seq uint64, err error) { ended <- end{seq, err} })
	select {
	case e := <-ended:
		return e.seq, e.err
	case <-ctx.Done():
		return 0, fmt.Errorf("queue: publish %s of %s: %w", in.Kind, in.Instance, ctx.Err())
	}
}

// PublishInputAsync makes one attempt and does not wait. done is called exactly
// once, from any goroutine (perhaps this one), and must not block. Errors as of
// PublishInput, and ErrBusy when 65,536 publishes are under way.
func (c *Conn) PublishInputAsync(in OutInput, done func(seq uint64, err error)) {
	if err := in.check(); err != nil {
		done(0, err)
		return
	}
	header, body, err := in.message()
	if err != nil {
		done(0, fmt.Errorf("%w, for instance %s", err, in.Instance))
		return
	}
	c.pub.publish(c.subj.to(in.Instance, in.Kind, in.Name), header, body, func(seq uint64, err error) {
		if err != nil {
			c.count.failed.Add(1)
		} else {
			c.count.inputs.Add(1)
		}
		if errors.Is(err, ErrTooLarge) {
			err = in.explain(err)
		}
		done(seq, err)
	})
}

// explain says what was too large together, though each of its parts was not.
func (o *OutInput) explain(err error) error {
	if o.Event == nil {
		return fmt.Errorf("%s of instance %s: %w", o.Kind, o.Instance, err)
	}
	return fmt.Errorf("start %s of instance %s: the input of %d bytes and event %s of %d bytes travel in one message: %w",
		o.Name, o.Instance, len(o.Payload.Data), o.Event.Name, len(o.Event.Payload.Data), err)
}

// mendSoon has a lost stream looked at, at most once a second.
func (c *Conn) mendSoon(want jetstream.StreamConfig) {
	c.mendMu.Lock()
	defer c.mendMu.Unlock()
	if time.Since(c.mended) < time.Second || c.ctx.Err() != nil {
		return
	}
	c.mended = time.Now()
	c.wg.Go(func() {
		if err := c.mend(c.ctx, want); err != nil {
			c.log.Error("a stream is missing and can not be created", "stream", want.Name, "error", err)
		}
	})
}
