package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// Purge removes an instance with all that it has: every execution's history, its leases,
// and its place in listings. It waits until that is done.
//
// A purge is an input like others, and takes effect when those before it have. An instance
// that runs is not purged without Force: the error is ErrRunning, and nothing has changed.
// One that has ended is purged when all that it has to tell others is told. What was sent
// behind the purge is for whoever has the id next.
//
//	published ─▶ behind the inputs before it ─▶ purged    (answered, and not found)
//	                      │       └─ it runs ─▶ refused   (answered)
//	                      └─ it is stuck ─────▶ waits; a forced one overtakes what can not be read
//
// The answer is pushed. It may be lost, so Describe is asked every Options.Every: the
// instance is gone, or another has its id; or it runs on with nothing unread, and what was
// not forced is taken for refused.
//
// Errors: ErrNotFound; ErrRunning, which is ErrRefused too; those of Start while the stream
// does not have the purge. When it has, the end of ctx and of the Client ends only the waiting,
// and so does finding that the instance is stuck: the error is ErrNotYet, beside ctx's (and
// why the last request failed, if it did), ErrClosed, or ErrStuck. Purging again is harmless, unless somebody has started another
// instance of the id meanwhile.
func (c *Client) Purge(ctx context.Context, id string, opts ...PurgeOption) error {
	w := c.wait()
	defer c.forget(w.token)
	in := queue.OutInput{Instance: id, Kind: queue.KindPurge, Reply: c.inbox.Subject(w.token)}
	seq, err := publish(ctx, c, &in, opts)
	if err != nil {
		return err
	}
	p := purging{c: c, id: id, seq: seq, force: in.Force}
	next := time.NewTicker(c.opts.Every)
	defer next.Stop()
	for {
		select {
		case <-w.settled:
			return p.answered(w.answer)
		case <-c.done:
			return p.unknown(ErrClosed)
		case <-ctx.Done():
			return p.unknown(ctx.Err())
		case <-next.C:
			if over, err := p.look(ctx); over {
				return err
			}
		}
	}
}

// purging is a purge that is in the stream.
type purging struct {
	c     *Client
	id    string
	seq   uint64 // of the purge
	force bool
	last  error // of the latest look, if it could not tell
}

func (p *purging) answered(a queue.Answer) error {
	switch {
	case a.Problem == nil:
		return nil
	case a.Problem.Code == queue.ProblemRefused:
		return &RunningError{Instance: p.id}
	default:
		return problem(p.id, a.Problem)
	}
}

func (p *purging) unknown(err error) error {
	if p.last != nil {
		return fmt.Errorf("%w: %s: %w (last: %w)", ErrNotYet, p.id, err, p.last)
	}
	return fmt.Errorf("%w: %s: %w", ErrNotYet, p.id, err)
}

// look asks how the instance stands, in case the answer was lost.
func (p *purging) look(ctx context.Context) (over bool, _ error) {
	d, err := p.c.describe(ctx, p.id)
	p.last = err
	switch {
	case errors.Is(err, ErrNotFound):
		return true, nil
	case err != nil:
		return false, nil //nolint:nilerr // it is asked again
	case d.Born.Seq > p.seq: // somebody has the id anew
		return true, nil
	case d.Stuck != "":
		return true, &StuckError{Instance: p.id, Why: d.Stuck}
	case !p.force && !Status(d.Status).Ended() && d.Inbox == 0:
		return true, &RunningError{Instance: p.id}
	default:
		return false, nil
	}
}
