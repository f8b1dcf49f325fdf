package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Purge removes an instance: the histories of all its executions, its leases, and its place in listings. It waits until that is done.
//
// A purge is an input like others, and takes effect after those before it. Without Force a running instance is not purged: the error
// is ErrRunning, and nothing has changed. One that has ended is purged when its messages to other instances are published. Inputs
// that are accepted after the purge belong to the next instance of the id.
//
//	published ─▶ after the inputs before it ─▶ purged    (answered; then not found)
//	                      │       └─ running ─▶ refused  (answered)
//	                      └─ stalled ─────────▶ waits; a forced one overtakes inputs that cannot be read
//
// The answer is pushed. It may be lost, so the instance is described every Options.RepeatInterval: it is gone, or another one has its
// id; or it is running without unread inputs, and a purge without Force counts as refused.
//
// Errors: ErrNotFound; ErrRunning, which is ErrRefused too; those of Start while the stream has not stored the purge. After that the
// end of ctx and of the Client end the wait only, and so does a stalled instance: the error matches ErrPurgePending, and ctx's error
// (and that of the last request), ErrClosed or ErrStalled. Purging again is harmless unless another instance of the id has been
// started.
func (c operators) Purge(ctx context.Context, id string, opts ...PurgeOption) error {
	w := c.client.newWaiter()
	defer c.client.forget(w.token)
	in := queue.OutInput{Instance: id, Kind: queue.KindPurge, Reply: c.client.inbox.Subject(w.token)}
	seq, err := publish(ctx, c.client, &in, opts)
	if err != nil {
		return err
	}
	p := purge{c: c.client, id: id, seq: seq, force: in.Force}
	repeat := time.NewTicker(c.client.opts.RepeatInterval)
	defer repeat.Stop()
	for {
		select {
		case <-w.settled:
			return p.answered(w.answer)
		case <-c.client.done:
			return p.pending(ErrClosed)
		case <-ctx.Done():
			return p.pending(ctx.Err())
		case <-repeat.C:
			if over, err := p.check(ctx); over {
				return err
			}
		}
	}
}

// purge is a purge that the stream has stored.
type purge struct {
	c     *Client
	id    string
	seq   uint64 // in the stream
	force bool
	last  error // of the latest check, if it has failed
}

func (p *purge) answered(a request.Answer) error {
	switch {
	case a.Problem == nil:
		return nil
	case a.Problem.Code == request.ProblemRefused:
		return &RunningError{Instance: p.id}
	default:
		return about(p.id, problem(a.Problem))
	}
}

func (p *purge) pending(err error) error {
	if p.last != nil {
		return fmt.Errorf("%w: %s: %w (last: %w)", ErrPurgePending, p.id, err, p.last)
	}
	return fmt.Errorf("%w: %s: %w", ErrPurgePending, p.id, err)
}

// check describes the instance, in case the answer was lost.
func (p *purge) check(ctx context.Context) (over bool, _ error) {
	d, err := p.c.describe(ctx, p.id, p.seq)
	p.last = err
	switch {
	case errors.Is(err, ErrNotFound):
		return true, nil
	case err != nil:
		return false, nil //nolint:nilerr // the request is repeated
	case d.Origin.Seq > p.seq: // another instance has the id
		return true, nil
	case d.Stalled != "":
		return true, &StalledError{Instance: p.id, Why: d.Stalled}
	case !p.force && !Status(d.Status).Ended() && d.UnreadInputs == 0:
		return true, &RunningError{Instance: p.id}
	default:
		return false, nil
	}
}
