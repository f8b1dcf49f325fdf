package client

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Start starts an instance. If an instance with the id exists, it is not changed (unless an IDReuse option requests it), and the returned
// Instance refers to it. Start returns when the stream has stored the start.
//
// Errors: before anything is sent, pawl.ErrBadID, pawl.ErrTooLarge and other errors of the encoding, and queue.ErrBadName for an invalid
// Version; queue.ErrStreamFull if the start was not accepted; when ctx ends (without a deadline: after 30 s) ErrUnknown or, if no attempt
// can have been accepted, queue.ErrNoStream or queue.ErrDisconnected. Starting again is always harmless.
func Start[In, Out any](ctx context.Context, c *Client, o pawl.Orchestration[In, Out], id string, in In, opts ...StartOption) (*Instance[Out], error) {
	p, err := author.Input(o).Encode(in)
	if err != nil {
		return nil, fmt.Errorf("client: start %s: %w", id, err)
	}
	raw, err := c.StartRaw(ctx, o.Name(), id, p, opts...)
	if err != nil {
		return nil, err
	}
	return &Instance[Out]{raw: raw, decode: author.Result(o).Decode}, nil
}

// StartRaw is Start for an orchestration that is known by its name only.
func (c *Client) StartRaw(ctx context.Context, orchestration, id string, in history.Payload, opts ...StartOption) (*RawInstance, error) {
	return start(ctx, c, message.OutInput{Instance: id, Name: orchestration, Payload: in}, opts)
}

// SendOrStart sends an event to an instance, and starts the instance with in if the id is free. Start and event are one message, so there
// is one instance however often and in whatever order SendOrStart is called, and no event is lost between a check and a start.
//
//   - If the id is free, the instance is started, and the event is kept until the code receives it.
//   - If the instance is running, the event is delivered as by Send; in and Version have no effect.
//   - If the instance has ended, neither has an effect: the event is dropped, and Result returns the result of the ended instance.
//
// The event is delivered once: the message is repeated under its id until it is stored, and a call with the MessageID of an earlier one
// delivers no second event within an hour.
//
// SendOrStart returns when the stream has stored the message. Errors are those of Start and Send. Input and event may have 512 KiB each,
// and must fit into one message of the NATS server together (1 MiB by default); otherwise the error is queue.ErrTooLarge.
func SendOrStart[In, Out, T any](
	ctx context.Context, c *Client, o pawl.Orchestration[In, Out], id string, in In, e pawl.Event[T], v T, opts ...StartOption,
) (*Instance[Out], error) {
	input, err := author.Input(o).Encode(in)
	if err != nil {
		return nil, fmt.Errorf("client: start %s: %w", id, err)
	}
	event, err := author.Value(e).Encode(v)
	if err != nil {
		return nil, fmt.Errorf("client: send %s to %s: %w", e.Name(), id, err)
	}
	raw, err := c.SendOrStartRaw(ctx, o.Name(), id, input, e.Name(), event, opts...)
	if err != nil {
		return nil, err
	}
	return &Instance[Out]{raw: raw, decode: author.Result(o).Decode}, nil
}

// SendOrStartRaw is SendOrStart for an orchestration and an event that are known by their names only.
func (c *Client) SendOrStartRaw(
	ctx context.Context, orchestration, id string, in history.Payload, event string, p history.Payload, opts ...StartOption,
) (*RawInstance, error) {
	return start(ctx, c, message.OutInput{Instance: id, Name: orchestration, Payload: in, Event: &message.OutEvent{Name: event, Payload: p}}, opts)
}

// Send sends an event to an instance, which need not exist yet: an event for an unknown id is kept for 24 hours. It returns when the
// stream has stored the event. Errors: those of Start.
func Send[T any](ctx context.Context, c *Client, e pawl.Event[T], id string, v T, opts ...Option) error {
	p, err := author.Value(e).Encode(v)
	if err != nil {
		return fmt.Errorf("client: send %s to %s: %w", e.Name(), id, err)
	}
	return c.SendRaw(ctx, e.Name(), id, p, opts...)
}

// SendRaw is Send for an event that is known by its name only.
func (c *Client) SendRaw(ctx context.Context, event, id string, p history.Payload, opts ...Option) error {
	_, err := publish(ctx, c, &message.OutInput{Instance: id, Kind: message.KindEvent, Name: event, Payload: p}, opts)
	return err
}

// Cancel requests the cancellation of an instance; text is the reason, cut at 8 KiB. It returns when the stream has stored the request.
// Cancelling an unknown or ended instance has no effect and is not an error. Errors: those of Start.
func (c *Client) Cancel(ctx context.Context, id, text string, opts ...Option) error {
	_, err := publish(ctx, c, &message.OutInput{Instance: id, Kind: message.KindCancel, Text: text}, opts)
	return err
}

func start[O setter](ctx context.Context, c *Client, in message.OutInput, opts []O) (*RawInstance, error) {
	w := c.newWaiter()
	owner := c.owners.next(c.conn.PartitionOf(in.Instance)) // taken before the start, because an owner that takes over after the start may not push
	in.Kind, in.Reply = message.KindStart, c.inbox.Subject(w.token)
	seq, err := publish(ctx, c, &in, opts)
	if err != nil {
		return nil, err
	}
	return &RawInstance{
		c: c, id: in.Instance, waiter: w, started: time.Now(), owner: owner, seq: seq, msgID: in.ID,
		contested: in.Reuse != history.ReuseIgnore, restarts: in.Reuse == history.ReuseTerminate,
	}, nil
}

// publish applies the options to an input and publishes it; seq is its position in the stream.
func publish[O setter](ctx context.Context, c *Client, in *message.OutInput, opts []O) (seq uint64, err error) {
	in.ID, in.By = nuid.Next(), c.opts.By
	for _, o := range opts {
		o.apply(in)
	}
	if err := pawl.ValidateID(in.Instance); err != nil {
		return 0, fmt.Errorf("client: %s: %w", in.Kind, err)
	}
	if seq, err = c.publish(ctx, in); err != nil {
		return 0, fmt.Errorf("client: %s %s: %w", in.Kind, in.Instance, err)
	}
	return seq, nil
}
