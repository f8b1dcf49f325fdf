package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Operated is what an instance is after the request of an operator has taken effect.
type Operated struct {
	Instance  string
	Status    Status
	Execution uint64
}

// Pause has an instance take no turn until it is resumed. Inputs are kept; activities that run go on, and their results wait. With Stop
// the outstanding activities are cancelled with the reason Paused, and run again after the resumption. Cancel, Terminate, Rewind, Retry
// and a forced purge end a pause, too. The caller needs the permissions of the role operator, as for the other requests below.
//
// A request takes effect after the inputs before it. Each of these calls waits until it has: see Purge for how. Errors: ErrNotFound;
// ErrRefused if the instance has ended, or is paused already; ErrPending if the wait has ended before; those of Start.
func (c operators) Pause(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbPause, id, queue.Operate{}, opts)
}

// Resume ends a pause. Errors: ErrRefused if the instance is not paused; those of Pause.
func (c operators) Resume(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbResume, id, queue.Operate{}, opts)
}

// Terminate ends an instance without its code: its activities and children are cancelled with the reason Terminated, its parent is
// notified, and its history stays. Errors: ErrRefused if it has ended; those of Pause.
func (c operators) Terminate(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbTerminate, id, queue.Operate{}, opts)
}

// Rewind has an instance go on from an earlier event of its current execution, also if it has ended. The next execution begins with
// the history up to the event and the rest of its step; PlanRewind shows what follows. Errors: ErrRefused if the history cannot be
// rewound so; those of Pause.
func (c operators) Rewind(ctx context.Context, id string, to uint64, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbRewind, id, queue.Operate{To: to}, opts)
}

// Retry has an instance that has failed, or was cancelled, go on before its failure; with FromStart it starts again with its input.
// Errors: ErrRefused if it has not failed; those of Pause.
func (c operators) Retry(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbRetry, id, queue.Operate{}, opts)
}

// PlanRewind returns what Rewind(to) would do, as far as the history shows: a result that is unread spares its activity, too. With to = 0
// it is the plan of Retry.
func (c operators) PlanRewind(ctx context.Context, id string, to uint64, opts ...OperateOption) (*history.RewindPlan, error) {
	in := queue.OutInput{}
	for _, o := range opts {
		o.apply(&in)
	}
	var events []history.Event
	for e, err := range c.client.History(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		events = append(events, e.Event)
	}
	if to == 0 {
		return history.PlanRetry(events, in.Operate.Start)
	}
	return history.PlanRewind(events, to, nil)
}

// operate publishes the request of an operator, and waits for its outcome.
func (c operators) operate(ctx context.Context, v history.Verb, id string, o queue.Operate, opts []OperateOption) (Operated, error) {
	w := c.client.newWaiter()
	defer c.client.forget(w.token)
	in := queue.OutInput{Instance: id, Kind: queue.KindOperate, Name: v.String(), Operate: o, Reply: c.client.inbox.Subject(w.token)}
	seq, err := publish(ctx, c.client, &in, opts)
	if err != nil {
		return Operated{}, err
	}
	p := pendingRequest{c: c.client, id: id, seq: seq}
	repeat := time.NewTicker(c.client.opts.RepeatInterval)
	defer repeat.Stop()
	for {
		select {
		case <-w.settled:
			if p := w.answer.Problem; p != nil {
				return Operated{}, about(id, problem(p))
			}
			return Operated{Instance: id, Status: Status(w.answer.Status), Execution: w.answer.Execution}, nil
		case <-c.client.done:
			return Operated{}, p.pending(ErrClosed)
		case <-ctx.Done():
			return Operated{}, p.pending(ctx.Err())
		case <-repeat.C:
			if out, over, err := p.check(ctx); over {
				return out, err
			}
		}
	}
}

// pendingRequest is a request that the stream has stored.
type pendingRequest struct {
	c    *Client
	id   string
	seq  uint64
	last error
}

func (p *pendingRequest) pending(err error) error {
	if p.last != nil {
		return fmt.Errorf("%w: %s: %w (last: %w)", ErrPending, p.id, err, p.last)
	}
	return fmt.Errorf("%w: %s: %w", ErrPending, p.id, err)
}

// check describes the instance, in case the answer was lost: it names the last request that has taken effect.
func (p *pendingRequest) check(ctx context.Context) (out Operated, over bool, _ error) {
	d, err := p.c.describe(ctx, p.id, p.seq)
	p.last = err
	switch {
	case errors.Is(err, ErrNotFound):
		return out, true, err
	case err != nil:
		return out, false, nil //nolint:nilerr // the request is repeated
	case d.Control >= p.seq:
		return Operated{Instance: p.id, Status: Status(d.Status), Execution: d.Execution}, true, nil
	case d.UnreadInputs == 0:
		return out, true, problem(&request.Problem{Code: request.ProblemRefused, Message: "instance " + p.id + ": the request had no effect"})
	default:
		return out, false, nil
	}
}
