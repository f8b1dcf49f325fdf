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

// Instance is an instance whose result has the type Out. It is safe for concurrent use.
type Instance[Out any] struct {
	raw    *RawInstance
	decode func(history.Payload) (Out, error)
}

// Attach returns the Instance of one that was started elsewhere. It makes no request; Result does.
func Attach[In, Out any](c *Client, o pawl.Orchestration[In, Out], id string) *Instance[Out] {
	return &Instance[Out]{raw: c.AttachRaw(id), decode: author.Result(o).Decode}
}

// ID is the id of the instance.
func (r *Instance[Out]) ID() string { return r.raw.id }

// Result waits for the end of the instance and returns its result, or the error it ended with: a *pawl.Failure, in which errors.Is
// finds the sentinels of the code that returned it, or one in which errors.As finds a *pawl.Cancelled. A result that does not decode
// into Out is pawl.ErrUndecodable. errors.Is finds context.DeadlineExceeded in the Failure of an instance that a timeout has ended.
//
// Other errors are those of the wait, in which errors.As finds no *pawl.Failure: ctx's error (which wraps that of the last request), ErrClosed, ErrRefused, and, for an Instance of
// Attach, ErrNotFound: after Options.OwnerTimeout, because an instance that was just started may not be known yet. It may be called
// again, and then returns the same end: for the one that follows a Retry or a Rewind, Attach anew.
func (r *Instance[Out]) Result(ctx context.Context) (Out, error) {
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

// WaitStarted waits until the start has taken effect: the instance is in lists, and a delayed one is pending. Of an Instance of Attach, and
// of a start that found its id in use and was ignored, it waits until there is an instance. Behind an instance that is paused or stalled
// a start takes effect when that goes on, so ctx should have a deadline.
//
// The error is ErrIDTaken if the start was rejected (Reject, AfterFailure), or if another start has replaced its instance since, unless it
// terminates others (TerminateExisting), which always begins; ErrNotFound if the instance was removed since; or that of the wait, as of
// Result.
func (r *Instance[Out]) WaitStarted(ctx context.Context) error { return r.raw.WaitStarted(ctx) }

// WaitStarted is Instance.WaitStarted.
func (r *RawInstance) WaitStarted(ctx context.Context) error {
	if err := pawl.ValidateID(r.id); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	q := &request.Start{Instance: r.id, Accepted: r.seq}
	if r.contested {
		q.Seq, q.ID, q.Restart = r.seq, r.msgID, r.restarts
	}
	for pause := minStartPoll; ; pause = min(2*pause, maxStartPoll) {
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
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("client: start of %s: %w", r.id, context.Cause(ctx))
		case <-r.c.done:
			return ErrClosed
		}
	}
}

// Pauses between two questions of WaitStarted: a start takes effect within milliseconds, unless the instance that has its id is paused or
// stalled.
const (
	minStartPoll = 2 * time.Millisecond
	maxStartPoll = 2 * time.Second
)

// RawInstance is an Instance whose result is not decoded.
type RawInstance struct {
	c       *Client
	id      string
	waiter  *waiter
	started time.Time       // when the stream had stored our start; zero: it was started elsewhere
	owner   <-chan struct{} // of our start: closed when the owner of the partition changes after it

	seq       uint64 // of our start in the stream; 0: it was started elsewhere
	msgID     string // of our start
	contested bool   // our start may be rejected, or replace another instance
	restarts  bool   // the other instance, too, if that has not ended
}

// AttachRaw is Attach for an orchestration that is known by its name only, or not at all.
func (c *Client) AttachRaw(id string) *RawInstance {
	return &RawInstance{c: c, id: id, waiter: c.newWaiter()}
}

// ID is the id of the instance.
func (r *RawInstance) ID() string { return r.id }

// Result is Instance.Result without the decoding.
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

// ending is the error of an instance that ended without a result.
func ending(a request.Answer) error {
	var err error = &pawl.Failure{Failure: *a.Failure}
	var c *pawl.Cancelled
	if a.Status == string(Cancelled) && !errors.As(err, &c) {
		return fmt.Errorf("%w: %w", &pawl.Cancelled{Reason: cancel.Requested}, err)
	}
	return err
}

// end waits for the end. The owner pushes the result of our own start, so it is requested only Options.RepeatInterval after the
// start, or at once if the owner or the connection has changed since: the push may be lost then. While our instance is not known, the
// start has not been read from the stream yet.
func (r *RawInstance) end(ctx context.Context) (request.Answer, error) {
	a := await{
		c: r.c, id: r.id, waiter: r.waiter, owner: r.owner, unknown: r.c.opts.OwnerTimeout,
		request: func(replyTo string) request.Request { return &request.Await{Instance: r.id, ReplyTo: replyTo} },
	}
	if !r.started.IsZero() {
		a.unknown = -1
	}
	if !r.started.IsZero() && !r.contested { // otherwise the push may not come
		a.delay = max(0, r.c.opts.RepeatInterval-time.Since(r.started))
	}
	return a.answer(ctx)
}
