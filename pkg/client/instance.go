package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Instance is a handle to an instance whose result has the type Out. It is safe for concurrent use.
type Instance[Out any] struct {
	raw    *RawInstance
	decode func(history.Payload) (Out, error)
}

// Attach returns the handle to an instance that was started elsewhere. It makes no request.
func Attach[In, Out any](c *Client, o pawl.Orchestration[In, Out], id string) *Instance[Out] {
	return &Instance[Out]{raw: c.AttachRaw(id), decode: author.Result(o).Decode}
}

// ID is the id of the instance.
func (r *Instance[Out]) ID() string { return r.raw.id }

// Result waits for the end of the instance and returns its result, or the error with which it ended: a *pawl.Failure, which matches the
// sentinels of the code that returned it, or an error in which errors.As finds a *pawl.Cancelled. If a timeout ended the instance,
// errors.Is finds context.DeadlineExceeded in the Failure. A result that does not decode into Out is pawl.ErrUndecodable.
//
// Other errors are those of the wait; errors.As finds no *pawl.Failure in them: the error of ctx (which wraps that of the last request),
// ErrClosed, ErrRefused, ErrIDTaken as of WaitStarted, and, after Attach, ErrNotFound if the instance is still unknown after
// Options.OwnerTimeout. Result may be called again, and then returns the same end. To wait for the end that follows a Retry or a Rewind,
// Attach again.
func (r *Instance[Out]) Result(ctx context.Context) (out Out, _ error) {
	p, err := r.raw.Result(ctx)
	if err != nil {
		return out, err
	}
	if out, err = r.decode(p); err != nil {
		return out, fmt.Errorf("client: result of %s: %w", r.raw.id, err)
	}
	return out, nil
}

// WaitStarted waits until the start has taken effect: the instance is listed, and a delayed one is pending. After Attach, and after a
// start that was ignored because its id was in use, it waits until the instance exists. If a paused or stalled instance has the id, the
// start takes effect when that instance resumes, so ctx should have a deadline.
//
// Errors: ErrIDTaken if the start was rejected (Reject, AfterFailure), or if another start has replaced its instance since, except for
// TerminateExisting, whose start always takes effect; ErrNotFound if the instance has been removed since; otherwise those of the wait, as
// for Result.
func (r *Instance[Out]) WaitStarted(ctx context.Context) error { return r.raw.WaitStarted(ctx) }

// WaitStarted waits until the start has taken effect: see Instance.WaitStarted.
func (r *RawInstance) WaitStarted(ctx context.Context) error {
	if err := pawl.ValidateID(r.id); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	q := &request.Start{Instance: r.id, Accepted: r.seq}
	if r.contested {
		q.Seq, q.ID, q.Restart = r.seq, r.msgID, r.restarts
	}
	for backoff := minStartPoll; ; backoff = min(2*backoff, maxStartPoll) {
		var got request.StartState
		if err := r.c.requestInstance(ctx, r.id, q, &got); err != nil {
			return err
		}
		switch got.State {
		case request.StartTaken:
			return fmt.Errorf("%w: %s", ErrIDTaken, r.id)
		case request.StartGone:
			return fmt.Errorf("%w: %s", ErrNotFound, r.id)
		case request.StartBegun:
			return nil
		case request.StartUnread:
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return fmt.Errorf("client: start of %s: %w", r.id, context.Cause(ctx))
		case <-r.c.done:
			return ErrClosed
		}
	}
}

// Backoff between two requests of WaitStarted. A start takes effect within milliseconds, unless a paused or stalled instance has its id.
const (
	minStartPoll = 2 * time.Millisecond
	maxStartPoll = 2 * time.Second
)

// RawInstance is an Instance whose result is not decoded. It is safe for concurrent use.
type RawInstance struct {
	c       *Client
	id      string
	waiter  *waiter
	started time.Time       // time at which the stream had stored our start; zero: it was started elsewhere
	owner   <-chan struct{} // closed when the owner of the partition changes after our start

	seq       uint64 // stream position of our start; 0: it was started elsewhere
	msgID     string // message id of our start
	contested bool   // our start may be rejected, or replace another instance
	restarts  bool   // it may also replace an instance that has not ended
}

// AttachRaw returns the handle to an instance whose orchestration is known by name only, or not at all. It makes no request.
func (c *Client) AttachRaw(id string) *RawInstance {
	return &RawInstance{c: c, id: id, waiter: c.newWaiter()}
}

// ID is the id of the instance.
func (r *RawInstance) ID() string { return r.id }

// Result returns the encoded result: see Instance.Result.
func (r *RawInstance) Result(ctx context.Context) (history.Payload, error) {
	if err := pawl.ValidateID(r.id); err != nil {
		return history.Payload{}, fmt.Errorf("client: %w", err)
	}
	if r.contested {
		if err := r.WaitStarted(ctx); err != nil {
			return history.Payload{}, err
		}
	}
	a, err := r.end(ctx)
	switch {
	case err != nil:
		return history.Payload{}, err
	case a.Problem != nil:
		return history.Payload{}, about(r.id, problem(a.Problem))
	case a.Failure != nil:
		return history.Payload{}, ending(a)
	}
	return a.Result, nil
}

// ending returns the error of an instance that ended without a result.
func ending(a request.Answer) error {
	var err error = &pawl.Failure{Failure: *a.Failure}
	var c *pawl.Cancelled
	if a.Status == string(Cancelled) && !errors.As(err, &c) {
		return fmt.Errorf("%w: %w", &pawl.Cancelled{Reason: cancel.Requested}, err)
	}
	return err
}

// end waits for the end. The owner pushes the result of our own start, so it is requested only Options.RepeatInterval after the start, or
// at once if the owner or the connection has changed since then, because the push may be lost. If our instance is unknown, its start has
// not been read from the stream yet.
func (r *RawInstance) end(ctx context.Context) (request.Answer, error) {
	a := await{
		c: r.c, id: r.id, waiter: r.waiter, owner: r.owner, unknown: r.c.opts.OwnerTimeout,
		request: func(replyTo string) request.Request { return &request.Await{Instance: r.id, ReplyTo: replyTo} },
	}
	if !r.started.IsZero() {
		a.unknown = -1
	}
	if !r.started.IsZero() && !r.contested { // a contested start may have no result to push
		a.delay = max(0, r.c.opts.RepeatInterval-time.Since(r.started))
	}
	return a.answer(ctx)
}
