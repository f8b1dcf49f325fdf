package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// firstPause is between two requests about an instance that is not known yet; it doubles.
const firstPause = 20 * time.Millisecond

// question waits for one answer, which is pushed when there is one, and asked for again
// and again, for a push may be lost, and whoever was to make it may be gone:
//
//	first ─▶ ask ──answer, or pushed──▶ told
//	          ▲  │
//	          └──┘ every Options.Every; not known yet: sooner
type question struct {
	c       *Client
	id      string
	ask     queue.Ask // without ReplyTo
	waiter  *waiter
	first   time.Duration // until it is asked for first
	unknown time.Duration // for so long an unknown instance is one that is not known yet; negative: for ever
}

// answer waits. The error is ctx's (with why the last request failed, if it did),
// ErrClosed or ErrNotFound.
func (q *question) answer(ctx context.Context) (queue.Answer, error) {
	next := time.NewTimer(q.first)
	defer next.Stop()
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
			if last != nil {
				return queue.Answer{}, fmt.Errorf("client: wait for %s: %w (last: %w)", q.id, ctx.Err(), last)
			}
			return queue.Answer{}, fmt.Errorf("client: wait for %s: %w", q.id, ctx.Err())
		case <-next.C:
			last = q.request(ctx)
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

// request asks whether there is an answer, and has the owner remember us if not.
func (q *question) request(ctx context.Context) error {
	q.ask.ReplyTo = q.c.inbox.Subject(q.waiter.token)
	reply, err := q.c.ask(ctx, q.c.conn.PartitionOf(q.id), q.ask)
	if err == nil && reply.Answer != nil {
		q.waiter.settle(*reply.Answer)
	}
	return err
}
