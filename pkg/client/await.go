package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
)

// spread is the interval over which the waiting clients of a partition spread their repeated requests to a new owner, at random, so that
// thousands of requests do not arrive at once.
const spread = 50 * time.Millisecond

// await waits for one answer, which the owner pushes. The push, or the owner that would have sent it, may be lost, so the request is
// repeated:
//
//	delay ─▶ request ──answered, or pushed──▶ settled
//	          ▲  │
//	          └──┘ every Options.RepeatInterval; sooner while the instance is unknown; at once after a change of the
//	               partition's owner, regardless of the outcome of the request to the old one
type await struct {
	c       *Client
	id      string
	request func(replyTo string) request.Request
	waiter  *waiter
	owner   <-chan struct{} // closed at the first relevant change of owner; nil: the next one
	delay   time.Duration   // delay of the first request
	unknown time.Duration   // time for which the instance may be unknown, because its start is in transit; negative: unlimited
}

// answer waits for the answer and decodes its payloads. The error is that of ctx (with that of the last request), ErrClosed, ErrNotFound
// or queue.ErrPermission.
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
			if current.over != nil {
				last = cmp.Or(<-current.over, last)
			}
			return request.Answer{}, a.interrupted(ctx.Err(), last)
		case <-owner:
			owner = a.c.owners.next(partition)
			current.cancel() // it was sent to a former owner, or the waiter is registered with one
			next.Reset(rand.N(spread))
		case <-next.C:
			current = a.attempt(ctx)
		case last = <-current.over:
			current.cancel()
			if a.unknown >= 0 && errors.Is(last, transport.ErrPermission) { // a client without the permission receives only the results of its own starts
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

// interrupted returns the error of a wait that ctx has ended.
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

// attempt is an outstanding request. The zero value is none.
type attempt struct {
	over chan error // receives the outcome; has a buffer of one
	stop context.CancelFunc
	done chan struct{} // closed when its goroutine has ended
}

// cancel cancels the request and waits for its goroutine.
func (t *attempt) cancel() {
	if t.over != nil {
		t.stop()
		<-t.done
	}
	*t = attempt{}
}

// attempt requests the answer. If there is none yet, the owner registers the waiter.
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
