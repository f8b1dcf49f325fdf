package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/internal/message"
)

const (
	publishTimeout = 30 * time.Second // timeout of a PublishInput whose context has no deadline
	attemptTimeout = 2 * time.Second  // timeout of each attempt, if another one may follow
	firstBackoff   = 50 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
)

// PublishInput publishes an input and waits until the stream has stored it; seq is its sequence there. While the stream has no leader, or
// there is no connection, it retries until ctx ends (without a deadline: for 30 s). If in has an ID, an attempt with an unknown outcome is
// retried, too, because a repeated ID has no effect; without an ID such an attempt is the last one.
//
// Errors: after an attempt with an unknown outcome the error is ErrUnknown and none of the following, whatever later attempts returned.
// Otherwise the input was not accepted: ErrBadInstance, ErrBadName, ErrUnknownKind, ErrMalformed, ErrTooLarge, ErrPermission and
// ErrStreamFull are returned immediately, ErrNoStream and ErrDisconnected when ctx ends. If ctx ended the attempts, the error also
// matches ctx's error.
func (c *inputStream) PublishInput(ctx context.Context, in message.OutInput) (seq uint64, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, publishTimeout)
		defer cancel()
	}
	p := publication{in: in}
	backoff := firstBackoff
	for {
		if err = ctx.Err(); err != nil {
			return 0, p.error(err)
		}
		if seq, err = c.publishOnce(ctx, in); err == nil {
			return seq, nil
		}
		if p.failed(err); !p.again() {
			return 0, p.error(ctx.Err())
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff/2 + rand.N(backoff/2)):
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// publication is the state of the attempts to publish an input.
type publication struct {
	in       message.OutInput
	attempts int
	unknown  bool // one of the attempts may have been accepted
	last     error
}

func (p *publication) failed(err error) {
	p.attempts++
	p.last = err
	p.unknown = p.unknown || errors.Is(err, ErrUnknown)
}

// again reports whether another attempt is safe and may succeed.
func (p *publication) again() bool {
	switch {
	case errors.Is(p.last, ErrClosed), errors.Is(p.last, ErrPermission):
		return false
	case p.unknown:
		return p.in.ID != ""
	default:
		return errors.Is(p.last, ErrNoStream) || errors.Is(p.last, ErrDisconnected) || errors.Is(p.last, ErrBusy)
	}
}

// error returns the error for the caller; done is the reason for which no time is left for another attempt, or nil. If an attempt before
// the last one may have been accepted, the last error is included only as text, because it concerns the last attempt alone.
func (p *publication) error(done error) error {
	err := p.last
	switch {
	case p.unknown && !errors.Is(err, ErrUnknown):
		err = fmt.Errorf("%w (last attempt: %v)", ErrUnknown, err) //nolint:errorlint // on purpose: see above
	case done == nil && !p.unknown:
		return err
	}
	if done == nil {
		return fmt.Errorf("queue: publish %s of %s, %d attempts: %w", p.in.Kind, p.in.Instance, p.attempts, err)
	}
	if err == nil { // ctx had ended before the first attempt
		return fmt.Errorf("queue: publish %s of %s: %w", p.in.Kind, p.in.Instance, done)
	}
	return fmt.Errorf("queue: publish %s of %s, %d attempts: %w: %w", p.in.Kind, p.in.Instance, p.attempts, done, err)
}

// publishOnce makes one attempt. If another attempt is possible, it waits for the acknowledgement at most attemptTimeout: the leader
// that received the message may have failed.
func (c *inputStream) publishOnce(ctx context.Context, in message.OutInput) (uint64, error) {
	type end struct {
		seq uint64
		err error
	}
	ended := make(chan end, 1)
	c.PublishInputAsync(in, func(seq uint64, err error) { ended <- end{seq, err} })
	var late <-chan time.Time
	if in.ID != "" {
		late = time.After(attemptTimeout)
	}
	select {
	case e := <-ended:
		return e.seq, e.err
	case <-late:
		return 0, fmt.Errorf("%w: %w (%s)", ErrUnknown, ErrTimeout, attemptTimeout)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: not acknowledged yet", ErrUnknown)
	}
}

// PublishInputAsync makes one attempt and does not wait. done is called exactly once, from any goroutine (possibly this one), and must
// not block. The errors are those of PublishInput for this attempt alone, and ErrBusy when 65,536 publishes are outstanding.
func (c *inputStream) PublishInputAsync(input message.OutInput, done func(seq uint64, err error)) {
	in := outgoing{&input}
	if err := in.check(); err != nil {
		done(0, err)
		return
	}
	header, body, err := in.message()
	if err != nil {
		done(0, fmt.Errorf("%w, for instance %s", err, in.Instance))
		return
	}
	c.toInputs.publish(c.subj.inputOf(&input), header, body, func(seq uint64, err error) {
		if err != nil {
			c.count.failed.Add(1)
		} else {
			c.count.inputs.Add(1)
		}
		c.observe("publish", err)
		if errors.Is(err, ErrTooLarge) {
			err = in.explain(err)
		}
		done(seq, err)
	})
}

// explain describes an input whose parts are too large together, although each of them is not.
func (o outgoing) explain(err error) error {
	if o.Event == nil {
		return fmt.Errorf("%s of instance %s: %w", o.Kind, o.Instance, err)
	}
	return fmt.Errorf("start %s of instance %s: the input of %d bytes and event %s of %d bytes travel in one message: %w",
		o.Name, o.Instance, len(o.Payload.Data), o.Event.Name, len(o.Event.Payload.Data), err)
}

// mendSoon repairs a lost stream in the background, at most once a second.
func (c *streams) mendSoon(want jetstream.StreamConfig) {
	c.mendMu.Lock()
	defer c.mendMu.Unlock()
	if time.Since(c.mended) < time.Second || c.ctx.Err() != nil {
		return
	}
	c.mended = time.Now()
	c.wg.Go(func() {
		err := c.mend(c.ctx, want)
		c.observe("find stream", err)
		if err != nil && !Unavailable(err) && c.ctx.Err() == nil {
			c.log.Error("missing stream not created", "stream", want.Name, "error", err)
		}
	})
}
