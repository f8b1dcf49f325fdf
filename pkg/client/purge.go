package client

import (
	"context"
	"errors"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
)

// Purge removes an instance: the histories of all its executions, its leases, and its entries in listings. It waits until that is done.
//
// A purge is an input and takes effect after all earlier ones. Without the option Force, a running instance is not purged: the error
// matches ErrRunning, and nothing has changed. An instance that has ended is purged when its messages to other instances have been
// published. Inputs that are accepted after the purge belong to the next instance with the id.
//
//	published ─▶ after the inputs before it ─▶ purged    (answered; then not found)
//	                      │       └─ running ─▶ refused  (answered)
//	                      └─ stalled ─────────▶ waits; a forced purge overtakes inputs that cannot be read
//
// The answer is pushed. The push may be lost, so the state of the instance is requested every Options.RepeatInterval. The purge is
// complete if the instance does not exist or another one has its id. A purge without Force counts as refused if the instance is running
// and has no unread inputs.
//
// Errors: ErrNotFound; ErrRunning, which also matches ErrRefused; until the stream has stored the purge, those of Start. After that, the
// wait ends when ctx ends, when the Client is closed, or if the instance is stalled: the error matches ErrPurgePending and the error of
// ctx (and that of the last request), ErrClosed or ErrStalled. Purging again is harmless unless another instance with the id has been
// started in the meantime.
func (c operators) Purge(ctx context.Context, id string, opts ...PurgeOption) error {
	w := c.client.newWaiter()
	defer c.client.forget(w.token)
	in := message.OutInput{Instance: id, Kind: message.KindPurge, Reply: c.client.inbox.Subject(w.token)}
	seq, err := publish(ctx, c.client, &in, opts)
	if err != nil {
		return err
	}
	r := storedRequest{c: c.client, id: id, seq: seq, pending: ErrPurgePending}
	return r.wait(ctx, w, func(a request.Answer) error {
		switch {
		case a.Problem == nil:
			return nil
		case a.Problem.Code == request.ProblemRefused:
			return &RunningError{Instance: id}
		default:
			return about(id, problem(a.Problem))
		}
	}, func(d *request.Description, err error) (over bool, _ error) {
		switch {
		case errors.Is(err, ErrNotFound):
			return true, nil
		case err != nil:
			return false, nil //nolint:nilerr // the request is repeated
		case d.Origin.Seq > seq: // another instance has the id
			return true, nil
		case d.Stalled != "":
			return true, &StalledError{Instance: id, Reason: d.Stalled}
		case !in.Force && !Status(d.Status).Ended() && d.UnreadInputs == 0:
			return true, &RunningError{Instance: id}
		default:
			return false, nil
		}
	})
}
