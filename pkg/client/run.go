package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Run is an instance whose result has the type Out. It is safe for concurrent use.
type Run[Out any] struct {
	raw    *RawRun
	decode func(history.Payload) (Out, error)
}

// Attach gives the Run of an instance that somebody has started. It does not ask
// whether there is one; Result does.
func Attach[In, Out any](c *Client, o pawl.Orchestration[In, Out], id string) *Run[Out] {
	return &Run[Out]{raw: c.AttachRaw(id), decode: author.Result(o).Decode}
}

// ID is the id of the instance.
func (r *Run[Out]) ID() string { return r.raw.id }

// Result waits for the end of the instance and gives its result, or the error it
// ended with: a *pawl.Failure, in which errors.Is finds the sentinels of the code that
// returned it, or one in which errors.As finds a *pawl.Cancelled. A result that does not
// decode into Out is pawl.ErrUndecodable.
//
// Other errors tell of the waiting: ctx's error (which wraps why the last request
// failed, if it did), ErrClosed, ErrRefused, and, for a Run of Attach, ErrNotFound: after
// Options.Patience, because an instance that was started a moment ago may not be known
// yet. It may be called again.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	p, err := r.raw.Result(ctx)
	if err != nil {
		var zero Out
		return zero, err
	}
	out, err := r.decode(p)
	if err != nil {
		return out, fmt.Errorf("client: result of %s: %w", r.raw.id, err)
	}
	return out, nil
}

// RawRun is an instance whose result is taken as it is.
type RawRun struct {
	c       *Client
	id      string
	waiter  *waiter
	started time.Time       // when the stream had our start; zero: it is not ours
	owner   <-chan struct{} // of a start of ours: closed when the partition's owner changes after it
}

// AttachRaw is Attach for an orchestration that is known by its name only, or not at all.
func (c *Client) AttachRaw(id string) *RawRun {
	return &RawRun{c: c, id: id, waiter: c.wait()}
}

// ID is the id of the instance.
func (r *RawRun) ID() string { return r.id }

// Result is Run.Result without the decoding.
func (r *RawRun) Result(ctx context.Context) (history.Payload, error) {
	if err := pawl.ValidateID(r.id); err != nil {
		return history.Payload{}, fmt.Errorf("client: %w", err)
	}
	a, err := r.end(ctx)
	switch {
	case err != nil:
		return history.Payload{}, err
	case a.Problem != nil:
		return history.Payload{}, problem(r.id, a.Problem)
	case a.Failure != nil:
		return history.Payload{}, ending(a)
	}
	return a.Result, nil
}

// ending is the error of an instance that did not end with a result.
func ending(a queue.Answer) error {
	var err error = &pawl.Failure{Failure: *a.Failure}
	var c *pawl.Cancelled
	if a.Status == string(Cancelled) && !errors.As(err, &c) {
		return fmt.Errorf("%w: %w", &pawl.Cancelled{Reason: cancel.Requested}, err)
	}
	return err
}

// end waits for the end. The result of a start of ours is pushed by the owner of its partition, so it is requested only
// Options.Every after the start, or at once if the owner was announced anew or the connection was lost since the start:
// then whoever was to push may be gone. While our instance is not known, it has not been read from the stream yet.
func (r *RawRun) end(ctx context.Context) (queue.Answer, error) {
	q := question{
		c: r.c, id: r.id, ask: queue.Ask{Op: queue.OpAwait, Instance: r.id}, waiter: r.waiter, owner: r.owner, unknown: r.c.opts.Patience,
	}
	if !r.started.IsZero() {
		q.unknown = -1
		q.first = max(0, r.c.opts.Every-time.Since(r.started))
	}
	return q.answer(ctx)
}
