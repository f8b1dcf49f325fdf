package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/queue"
)

// StatusAt is a custom status: what an instance says of itself (pawl.Status), and how
// often it had said something by then. It is not to be confused with Status, which is
// where the instance stands.
type StatusAt[T any] struct {
	Value   T
	Version uint64 // from 1, ascending over all executions of the instance
	Cleared bool   // the instance has taken the value away: Value is zero
}

// CustomStatus gives the custom status of an instance at this moment; one that has ended
// keeps its last. It does not wait.
//
// Errors: ErrNoStatus if none was ever set, ErrNotFound, ErrNoOwner, queue.ErrTimeout;
// pawl.ErrUndecodable for one that does not decode into T: then Version is set all the same.
func CustomStatus[T any](ctx context.Context, c *Client, s pawl.Status[T], id string) (StatusAt[T], error) {
	if err := pawl.ValidateID(id); err != nil {
		return StatusAt[T]{}, fmt.Errorf("client: %w", err)
	}
	r, err := c.ask(ctx, c.conn.PartitionOf(id), queue.Ask{Op: queue.OpStatus, Instance: id})
	switch {
	case err != nil:
		return StatusAt[T]{}, err
	case r.Answer == nil || r.Answer.Custom == nil:
		return StatusAt[T]{}, fmt.Errorf("%w: %s", ErrNoStatus, id)
	}
	return statusAt(s, id, r.Answer.Custom)
}

// NextStatus waits for a custom status of a version greater than after (0: for the
// first), and gives the latest; versions in between may never be seen. It does not poll:
// the status is pushed when it is set, and asked for every Options.Every, so that a lost
// push costs no more than that.
//
// Errors: one that is ErrEnded, an *EndedError, if the instance has ended and said
// nothing newer (what it said last is still given before that); ErrNotFound, after
// Options.Patience, because an instance that was started a moment ago may not be known
// yet; ctx's error, ErrClosed; pawl.ErrUndecodable as CustomStatus.
func NextStatus[T any](ctx context.Context, c *Client, s pawl.Status[T], id string, after uint64) (StatusAt[T], error) {
	custom, err := c.nextStatus(ctx, id, after)
	if err != nil {
		return StatusAt[T]{}, err
	}
	return statusAt(s, id, custom)
}

// WatchStatus gives the custom status of an instance, if it has one, and every later one
// as NextStatus does, until the instance ends: that is the end of the sequence, without
// an error, and Attach tells the result. Any other error of NextStatus is in the last pair.
// Versions ascend; some may be missing.
func WatchStatus[T any](ctx context.Context, c *Client, s pawl.Status[T], id string) iter.Seq2[StatusAt[T], error] {
	return func(yield func(StatusAt[T], error) bool) {
		for after := uint64(0); ; {
			at, err := NextStatus(ctx, c, s, id, after)
			if errors.Is(err, ErrEnded) {
				return
			}
			if !yield(at, err) || err != nil {
				return
			}
			after = at.Version
		}
	}
}

// nextStatus waits for a version greater than after. An answer that has none, of an
// instance that has not ended, tells nothing: its owner has forgotten what it had told.
func (c *Client) nextStatus(ctx context.Context, id string, after uint64) (*queue.Custom, error) {
	if err := pawl.ValidateID(id); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	q := question{
		c: c, id: id, unknown: c.opts.Patience,
		ask: queue.Ask{Op: queue.OpStatus, Instance: id, After: after},
	}
	for {
		q.waiter = c.wait()
		a, err := q.answer(ctx)
		c.forget(q.waiter.token)
		switch {
		case err != nil:
			return nil, err
		case a.Problem != nil:
			return nil, problem(id, a.Problem)
		case a.Custom != nil && a.Custom.Version > after:
			return a.Custom, nil
		case Status(a.Status).Ended():
			return nil, &EndedError{Instance: id, Status: Status(a.Status)}
		}
		q.first = c.opts.Every
	}
}

func statusAt[T any](s pawl.Status[T], id string, custom *queue.Custom) (StatusAt[T], error) {
	if custom.Cleared {
		return StatusAt[T]{Version: custom.Version, Cleared: true}, nil
	}
	v, err := author.Value(s).Decode(custom.Payload)
	if err != nil {
		err = fmt.Errorf("client: status %d of %s: %w", custom.Version, id, err)
	}
	return StatusAt[T]{Value: v, Version: custom.Version}, err
}
