package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// firstPause is between two requests about an instance that is not known yet; it doubles.
const firstPause = 20 * time.Millisecond

// spread is the interval over which the waiting clients of a partition put their requests to its new owner, each at a
// random moment of it, so that thousands do not come at once.
const spread = 50 * time.Millisecond

// question waits for one answer, which is pushed when there is one. A push may be lost, and whoever was to make it may
// be gone, so it is requested again and again:
//
//	first ─▶ request ──answer, or pushed──▶ told
//	          ▲  │
//	          └──┘ every Options.Every; the instance is not known yet: sooner; the partition has a new owner: at once,
//	               whatever has become of a request to the old one
type question struct {
	c       *Client
	id      string
	ask     queue.Ask // without ReplyTo
	waiter  *waiter
	owner   <-chan struct{} // closed at the first change of owner that matters; nil: one from now on
	first   time.Duration   // until it is requested first
	unknown time.Duration   // for so long an unknown instance is one that is not known yet; negative: forever
}

// answer waits. The error is ctx's (with why the last request failed, if it did),
// ErrClosed or ErrNotFound.
func (q *question) answer(ctx context.Context) (queue.Answer, error) {
	partition := q.c.conn.PartitionOf(q.id)
	owner := q.owner
	if owner == nil {
		owner = q.c.owners.next(partition)
	}
	next := time.NewTimer(q.first)
	defer next.Stop()
	var r request
	defer func() { r.end() }()
	pause := firstPause
	var last error
	var missed time.Time // since when the instance is unknown
	for {
		select {
		case <-q.waiter.settled:
			return q.waiter.answer, nil
		case <-q.c.done:
			return queue.Answer{}, ErrClosed
		case <-ctx.Done():
			if err := r.outcome(); err != nil {
				last = err
			}
			switch {
			case errors.Is(last, ctx.Err()):
				return queue.Answer{}, fmt.Errorf("client: wait for %s: %w", q.id, last)
			case last != nil:
				return queue.Answer{}, fmt.Errorf("client: wait for %s: %w (last: %w)", q.id, ctx.Err(), last)
			}
			return queue.Answer{}, fmt.Errorf("client: wait for %s: %w", q.id, ctx.Err())
		case <-owner:
			owner = q.c.owners.next(partition)
			r.end() // it went to an owner that is gone, or registered us with one
			next.Reset(rand.N(spread))
		case <-next.C:
			r = q.request(ctx)
		case last = <-r.over:
			r.end()
			if q.unknown >= 0 && errors.Is(last, queue.ErrPermission) { // and nobody is to push it either
				return queue.Answer{}, last
			}
			if !errors.Is(last, ErrNotFound) {
				next.Reset(q.c.opts.Every)
				continue
			}
			if missed.IsZero() {
				missed = time.Now()
			}
			if q.unknown >= 0 && time.Since(missed) >= q.unknown {
				return queue.Answer{}, last
			}
			next.Reset(pause)
			pause = min(2*pause, q.c.opts.Every)
		}
	}
}

// request is one request under way. The zero value is none.
type request struct {
	over chan error // has room for the outcome
	stop context.CancelFunc
	done chan struct{}
}

// end cuts the request short and waits for its end.
func (r *request) end() {
	if r.over != nil {
		r.stop()
		<-r.done
	}
	*r = request{}
}

// outcome waits for the error of a request whose context is done; nil if there is none.
func (r *request) outcome() error {
	if r.over == nil {
		return nil
	}
	return <-r.over
}

// request asks whether there is an answer, and has the owner remember us if not.
func (q *question) request(ctx context.Context) request {
	ctx, stop := context.WithCancel(ctx)
	r := request{over: make(chan error, 1), stop: stop, done: make(chan struct{})}
	ask := q.ask
	ask.ReplyTo = q.c.inbox.Subject(q.waiter.token)
	go func() {
		defer close(r.done)
		reply, err := q.c.ask(ctx, q.c.conn.PartitionOf(q.id), ask)
		if err == nil && reply.Answer != nil {
			q.waiter.settle(*reply.Answer)
		}
		r.over <- err
	}()
	return r
}
