package client

import (
	"context"
	"slices"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Message describes a message that a client publishes to its interceptors.
type Message struct {
	Instance string
	Kind     string // start, event, cancel or purge
	Name     string // name of the orchestration or the event; empty for other kinds
	// Headers are sent with a start or an event; those of other kinds are ignored. An interceptor may change them.
	Headers history.Headers
}

// Publish publishes a message and waits until the stream has stored it.
type Publish func(ctx context.Context, m *Message) error

// Interceptor wraps the publication of messages: next publishes the message, and may be called at most once. It may run on several
// goroutines at a time.
type Interceptor func(next Publish) Publish

// outgoing is the message of a call. It is passed in the context to the innermost Publish.
type outgoing struct {
	in  *message.OutInput
	seq uint64
}

type outgoingKey struct{}

func (c *Client) intercept(all []Interceptor) {
	if len(all) == 0 {
		return
	}
	c.send = func(ctx context.Context, m *Message) (err error) {
		o := ctx.Value(outgoingKey{}).(*outgoing) //nolint:forcetypeassert // set by publish
		o.in.Headers = m.Headers
		o.seq, err = c.conn.PublishInput(ctx, *o.in)
		return err
	}
	for _, around := range slices.Backward(all) {
		c.send = around(c.send)
	}
}

// publish publishes an input through the interceptors.
func (c *Client) publish(ctx context.Context, in *message.OutInput) (uint64, error) {
	if err := c.seal(ctx, in); err != nil {
		return 0, err
	}
	if c.send == nil {
		return c.conn.PublishInput(ctx, *in)
	}
	o := &outgoing{in: in}
	m := &Message{Instance: in.Instance, Kind: in.Kind.String(), Name: in.Name, Headers: in.Headers}
	err := c.send(context.WithValue(ctx, outgoingKey{}, o), m)
	return o.seq, err
}
