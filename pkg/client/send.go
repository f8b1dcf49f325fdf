package client

import (
	"context"
	"fmt"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Option is an option of Start, Send and Cancel: By, MessageID.
type Option interface {
	apply(*queue.OutInput)
}

type byOption string

func (b byOption) apply(in *queue.OutInput) { in.By = string(b) }

// By names who asks, in place of Options.By.
func By(name string) Option { return byOption(name) }

type idOption string

func (i idOption) apply(in *queue.OutInput) { in.ID = string(i) }

// MessageID gives the message an id of the caller's, at most 256 bytes, unique among
// the messages to the instance: a repeat of it within an hour takes no effect. Without
// this option every call makes an id of its own.
func MessageID(id string) Option { return idOption(id) }

// Start starts an instance, unless one of that id exists: then nothing is changed,
// and the Run is that one's. It returns when the start is safely in the stream.
//
// Errors: pawl.ErrBadID, pawl.ErrTooLarge and other errors of the encoding before
// anything is sent; queue.ErrStreamFull and queue.ErrNoStream if it was not accepted;
// ctx's error (without a deadline: after 30 s) if that is unknown. Starting again is
// always harmless.
func Start[In, Out any](ctx context.Context, c *Client, o pawl.Orchestration[In, Out], id string, in In, opts ...Option) (*Run[Out], error) {
	p, err := o.EncodeInput(in)
	if err != nil {
		return nil, fmt.Errorf("client: start %s: %w", id, err)
	}
	raw, err := StartRaw(ctx, c, o.Name(), id, p, opts...)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{raw: raw, decode: o.DecodeResult}, nil
}

// StartRaw is Start for an orchestration that is known by its name only.
func StartRaw(ctx context.Context, c *Client, orchestration, id string, in history.Payload, opts ...Option) (*RawRun, error) {
	w := c.wait()
	err := c.publish(ctx, queue.OutInput{Instance: id, Kind: queue.KindStart, Name: orchestration, Payload: in, Reply: c.inbox.Subject(w.token)}, opts)
	if err != nil {
		return nil, err
	}
	return &RawRun{c: c, id: id, waiter: w, started: true}, nil
}

// Send sends an event to an instance, which need not exist yet: an event for an
// unknown instance is kept for 24 hours. It returns when the event is safely in the
// stream; errors as of Start.
func Send[T any](ctx context.Context, c *Client, e pawl.Event[T], id string, v T, opts ...Option) error {
	p, err := e.Encode(v)
	if err != nil {
		return fmt.Errorf("client: send %s to %s: %w", e.Name(), id, err)
	}
	return SendRaw(ctx, c, e.Name(), id, p, opts...)
}

// SendRaw is Send for an event that is known by its name only.
func SendRaw(ctx context.Context, c *Client, event, id string, p history.Payload, opts ...Option) error {
	return c.publish(ctx, queue.OutInput{Instance: id, Kind: queue.KindEvent, Name: event, Payload: p}, opts)
}

// Cancel asks an instance to end, and says why. It returns when the request is safely
// in the stream; errors as of Start. An unknown or ended instance is not an error:
// there is nothing to end.
func Cancel(ctx context.Context, c *Client, id, text string, opts ...Option) error {
	return c.publish(ctx, queue.OutInput{Instance: id, Kind: queue.KindCancel, Text: text}, opts)
}

func (c *Client) publish(ctx context.Context, in queue.OutInput, opts []Option) error {
	in.ID, in.By = nuid.Next(), c.opts.By
	for _, o := range opts {
		o.apply(&in)
	}
	if err := pawl.ValidateID(in.Instance); err != nil {
		return fmt.Errorf("client: %s: %w", in.Kind, err)
	}
	if _, err := c.conn.PublishInput(ctx, in); err != nil {
		return fmt.Errorf("client: %s %s: %w", in.Kind, in.Instance, err)
	}
	return nil
}
