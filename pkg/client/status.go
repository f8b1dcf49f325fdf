package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/request"
)

// StatusAt is one version of a custom status (pawl.Status) of an instance.
type StatusAt[T any] struct {
	Value   T
	Version uint64 // from 1, ascending across all executions of the instance
	Cleared bool   // the instance has cleared the status, and Value is the zero value
}

// CustomStatus returns the current value of a custom status of an instance. An ended instance keeps its last one. It does not wait.
//
// Errors: ErrNoStatus if the status was never set, ErrNotFound, ErrNoOwner, queue.ErrTimeout; pawl.ErrUndecodable if it does not decode
// into T, in which case Version is set.
func CustomStatus[T any](ctx context.Context, c *Client, s pawl.Status[T], id string) (StatusAt[T], error) {
	var r request.Answered
	err := c.requestInstance(ctx, id, &request.Status{Instance: id}, &r)
	switch {
	case err != nil:
		return StatusAt[T]{}, err
	case r.Answer == nil || r.Answer.Custom == nil:
		return StatusAt[T]{}, fmt.Errorf("%w: %s", ErrNoStatus, id)
	}
	a, err := c.open(ctx, id, *r.Answer)
	if err != nil {
		return StatusAt[T]{}, err
	}
	at, found, err := statusAt(s, id, a.Custom)
	if !found && err == nil {
		err = fmt.Errorf("%w: %s", ErrNoStatus, id)
	}
	return at, err
}

// NextStatus waits for a version of a custom status greater than after (0: the first), and returns the latest one; versions in between
// may be skipped. The status is pushed when it is set, and requested every Options.RepeatInterval in case the push was lost.
//
// Errors: an *EndedError, which matches ErrEnded, if the instance has ended without a newer version (the last version is returned before
// that); ErrNotFound if the instance is still unknown after Options.OwnerTimeout; the error of ctx; ErrClosed; pawl.ErrUndecodable as for
// CustomStatus.
func NextStatus[T any](ctx context.Context, c *Client, s pawl.Status[T], id string, after uint64) (StatusAt[T], error) {
	for seen := after; ; {
		custom, err := c.nextStatus(ctx, id, seen)
		if err != nil {
			return StatusAt[T]{}, err
		}
		at, found, err := statusAt(s, id, custom)
		if found && at.Version > after || err != nil {
			return at, err
		}
		seen = custom.Version // another status was set
	}
}

// WatchStatus iterates over the current version of a custom status, if it is set, and over every later one as NextStatus returns it,
// until the instance ends. The end is not an error; use Attach for the result. Any other error of NextStatus is in the last pair.
// Versions ascend; some may be skipped.
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

// nextStatus waits for a version greater than after. If the answer contains none and the instance has not ended, the request is repeated:
// the owner has lost its record of the versions that it has pushed.
func (c *Client) nextStatus(ctx context.Context, id string, after uint64) (*request.CustomStatus, error) {
	if err := pawl.ValidateID(id); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	w := await{
		c: c, id: id, unknown: c.opts.OwnerTimeout,
		request: func(replyTo string) request.Request {
			return &request.Status{Instance: id, ReplyTo: replyTo, After: after}
		},
	}
	for {
		w.waiter = c.newWaiter()
		a, err := w.answer(ctx)
		c.forget(w.waiter.token)
		switch {
		case err != nil:
			return nil, err
		case a.Problem != nil:
			return nil, about(id, problem(a.Problem))
		case a.Custom != nil && a.Custom.Version > after:
			return a.Custom, nil
		case Status(a.Status).Ended():
			return nil, &EndedError{Instance: id, Status: Status(a.Status)}
		}
		w.delay = c.opts.RepeatInterval
	}
}

// statusAt returns the status with the name of s; found is false if it was never set.
func statusAt[T any](s pawl.Status[T], id string, custom *request.CustomStatus) (at StatusAt[T], found bool, err error) {
	all, err := eventcodec.SplitStatus(custom.Payload, custom.Version)
	if err != nil {
		return at, false, fmt.Errorf("client: status %d of %s: %w", custom.Version, id, err)
	}
	for _, x := range all {
		if x.Name != s.Name() {
			continue
		}
		if at.Version = x.Version; x.Cleared() {
			at.Cleared = true
			return at, true, nil
		}
		if at.Value, err = author.Value(s).Decode(x.Payload); err != nil {
			err = fmt.Errorf("client: status %d of %s: %w", x.Version, id, err)
		}
		return at, true, err
	}
	return at, false, nil
}
