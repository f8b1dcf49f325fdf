package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// seal encodes the payloads of an input and stores large ones in the object store. The maximum size applies to the payload before
// encoding.
func (c *Client) seal(ctx context.Context, in *message.OutInput) error {
	if in.Kind == message.KindStart && in.Name == message.ImportName { // its payloads are encoded already
		return nil
	}
	all := []*history.Payload{&in.Payload}
	if in.Event != nil {
		e := *in.Event
		in.Event, all = &e, append(all, &e.Payload)
	}
	for _, p := range all {
		if n, most := len(p.Data), c.codec().MaxPayload(); n > most && p.Type != history.TypeSealed {
			return tooLarge(n, most)
		}
		sealed, o := c.codec().SealStored(sealing.ByClient, *p)
		if o != nil {
			o.Owners = []string{in.Instance}
			if err := c.store(ctx, *o); err != nil {
				return err
			}
		}
		*p = sealed
	}
	return nil
}

func tooLarge(n, most int) error {
	return fmt.Errorf("%w: %w: %d bytes, at most %d are allowed", pawl.ErrTooLarge, transport.ErrTooLarge, n, most)
}

// Timeout and backoff of writes to the object store.
const (
	storeTimeout = 30 * time.Second // if the context has no deadline
	storeBackoff = 250 * time.Millisecond
)

// store writes an object, and retries until ctx ends while the object store is unavailable.
func (c *Client) store(ctx context.Context, o sealing.Object) error {
	limit := transport.MaxStoring
	if _, ok := ctx.Deadline(); !ok {
		limit = storeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := c.conn.PutObject(ctx, o)
		if err == nil || errors.Is(err, transport.ErrTooLarge) || errors.Is(err, transport.ErrPermission) || errors.Is(err, transport.ErrStreamFull) {
			return err
		}
		select {
		case <-time.After(storeBackoff):
		case <-ctx.Done():
			return err
		}
	}
}

// load returns a function that reads objects.
func (c *Client) load(ctx context.Context) sealing.Load {
	return func(name string, size, _ int) ([]byte, error) {
		return c.conn.GetObject(ctx, name, size, transport.FollowerLag, 0)
	}
}

type opener = func(history.Payload) (history.Payload, error)

// small returns a decoder of payloads in lists, which does not read objects larger than 512 KiB.
func (c *Client) small(ctx context.Context) opener {
	return func(p history.Payload) (history.Payload, error) { return c.codec().OpenSmall(c.load(ctx), p) }
}

// whole returns a decoder of payloads of any size.
func (c *Client) whole(ctx context.Context) opener {
	return func(p history.Payload) (history.Payload, error) { return c.codec().OpenWith(c.load(ctx), p) }
}

// open decodes the payloads of an answer. An error, such as a missing key or an unreadable object, names the instance.
func (c *Client) open(ctx context.Context, id string, a request.Answer) (request.Answer, error) {
	if a.Custom != nil {
		custom, empty := *a.Custom, (*history.Failure)(nil)
		if err := c.openResult(c.whole(ctx), id, &custom.Payload, &empty); err != nil {
			return a, err
		}
		a.Custom = &custom
	}
	return a, c.openResult(c.whole(ctx), id, &a.Result, &a.Failure)
}

func (c *Client) openResult(open opener, id string, p *history.Payload, f **history.Failure) (err error) {
	opened, err := open(*p)
	if err == nil {
		*p = opened
		*f, err = c.codec().OpenFailure(*f)
	}
	if err != nil {
		return fmt.Errorf("client: instance %s: %w", id, err)
	}
	return nil
}

func (c *Client) codec() *sealing.Codec { return (*sealing.Codec)(c.opts.Codec) }
