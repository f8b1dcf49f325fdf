package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/queue"
)

// spread is the interval over which the waiting clients of a partition repeat their requests to its new owner, each at a random
// moment of it, so that thousands do not arrive at once.
const spread = 50 * time.Millisecond

// await waits for one answer, which is pushed when it exists. A push may be lost, and so may be the owner that would have sent it, so
// the request is repeated:
//
//	delay ─▶ request ──answered, or pushed──▶ settled
//	          ▲  │
//	          └──┘ every Options.RepeatInterval; the instance is not known yet: sooner; the partition has a new owner: at once,
//	               whatever has become of a request to the old one
type await struct {
	c       *Client
	id      string
	request func(replyTo string) request.Request
	waiter  *waiter
	owner   <-chan struct{} // closed at the first change of owner that matters; nil: one from now on
	delay   time.Duration   // until the first request
	unknown time.Duration   // for so long an unknown instance is one that is not known yet; negative: forever
}

// answer waits, and opens what the answer has. The error is ctx's (with that of the last request), ErrClosed or ErrNotFound.
func (a *await) answer(ctx context.Context) (request.Answer, error) {
	partition := a.c.conn.PartitionOf(a.id)
	owner := a.owner
	if owner == nil {
		owner = a.c.owners.next(partition)
	}
	next := time.NewTimer(a.delay)
	defer next.Stop()
	var current attempt
	defer func() { current.cancel() }()
	backoff := minBackoff
	var last error
	var unknownSince time.Time
	for {
		select {
		case <-a.waiter.settled:
			return a.c.open(ctx, a.id, a.waiter.answer)
		case <-a.c.done:
			return request.Answer{}, ErrClosed
		case <-ctx.Done():
			if err := current.wait(); err != nil {
				last = err
			}
			return request.Answer{}, a.interrupted(ctx.Err(), last)
		case <-owner:
			owner = a.c.owners.next(partition)
			current.cancel() // it went to an owner that is gone, or registered the waiter with one
			next.Reset(rand.N(spread))
		case <-next.C:
			current = a.attempt(ctx)
		case last = <-current.over:
			current.cancel()
			if a.unknown >= 0 && errors.Is(last, queue.ErrPermission) { // and no start of this client pushes it
				return request.Answer{}, last
			}
			if !errors.Is(last, ErrNotFound) {
				next.Reset(a.c.opts.RepeatInterval)
				continue
			}
			if unknownSince.IsZero() {
				unknownSince = time.Now()
			}
			if a.unknown >= 0 && time.Since(unknownSince) >= a.unknown {
				return request.Answer{}, last
			}
			next.Reset(backoff)
			backoff = min(2*backoff, a.c.opts.RepeatInterval)
		}
	}
}

func (a *await) interrupted(err, last error) error {
	switch {
	case errors.Is(last, err):
		return fmt.Errorf("client: wait for %s: %w", a.id, last)
	case last != nil:
		return fmt.Errorf("client: wait for %s: %w (last: %w)", a.id, err, last)
	default:
		return fmt.Errorf("client: wait for %s: %w", a.id, err)
	}
}

// attempt is a request under way. The zero value is none.
type attempt struct {
	over chan error // has room for the outcome
	stop context.CancelFunc
	done chan struct{}
}

// cancel ends the request and waits for its end.
func (t *attempt) cancel() {
	if t.over != nil {
		t.stop()
		<-t.done
	}
	*t = attempt{}
}

// wait returns the error of a request whose context is done; nil if there is none.
func (t *attempt) wait() error {
	if t.over == nil {
		return nil
	}
	return <-t.over
}

// attempt requests the answer; if there is none yet, the owner registers the waiter.
func (a *await) attempt(ctx context.Context) attempt {
	ctx, stop := context.WithCancel(ctx)
	t := attempt{over: make(chan error, 1), stop: stop, done: make(chan struct{})}
	q := a.request(a.c.inbox.Subject(a.waiter.token))
	go func() {
		defer close(t.done)
		var r request.Answered
		err := a.c.requestInstance(ctx, a.id, q, &r)
		if err == nil && r.Answer != nil {
			a.waiter.settle(*r.Answer)
		}
		t.over <- err
	}()
	return t
}
