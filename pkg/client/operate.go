package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// Operated describes an instance after an operator request has taken effect.
type Operated struct {
	Instance  string
	Status    Status
	Execution uint64 // number of the latest execution, from 1
}

// Pause pauses an instance: it takes no turns until it is resumed. Its inputs are kept; running activities continue, and their
// results wait. With the option Stop, outstanding activities are cancelled with the reason Paused, and run again after Resume.
// Cancel, Terminate, Rewind, Retry and a forced purge also end a pause. Like the operations below, Pause requires the permissions of
// the role operator.
//
// A request takes effect after all earlier inputs. Each of these methods waits until it has taken effect, as Purge does. Errors:
// ErrNotFound; ErrRefused if the instance has ended or is paused already; ErrPending if the wait ended before the effect; those of Start.
func (c operators) Pause(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbPause, id, message.Operate{}, opts)
}

// Resume ends a pause. Errors: ErrRefused if the instance is not paused; those of Pause.
func (c operators) Resume(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbResume, id, message.Operate{}, opts)
}

// Terminate ends an instance without running its code: its activities and children are cancelled with the reason Terminated, its parent
// is notified, and its history is kept. Errors: ErrRefused if it has ended; those of Pause.
func (c operators) Terminate(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbTerminate, id, message.Operate{}, opts)
}

// Rewind continues an instance, even one that has ended, from an earlier event of its current execution. The next execution starts with
// the history up to the event to, and the rest of that event's step; PlanRewind returns the consequences. Errors: ErrRefused if the
// history cannot be rewound to this event; those of Pause.
func (c operators) Rewind(ctx context.Context, id string, to uint64, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbRewind, id, message.Operate{To: to}, opts)
}

// Retry continues an instance that has failed or was cancelled from before its failure; with the option FromStart it starts the instance
// again with its input. Errors: ErrRefused if it has not failed; those of Pause.
func (c operators) Retry(ctx context.Context, id string, opts ...OperateOption) (Operated, error) {
	return c.operate(ctx, history.VerbRetry, id, message.Operate{}, opts)
}

// PlanRewind returns the effects that Rewind(to) would have according to the history; unread results, which may spare further activities,
// are not considered. If to is 0, it returns the plan of Retry. Errors: those of History, and of the plan.
func (c operators) PlanRewind(ctx context.Context, id string, to uint64, opts ...OperateOption) (*history.RewindPlan, error) {
	in := message.OutInput{}
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
	var plan *fold.Plan
	var err error
	if to == 0 {
		plan, err = fold.PlanRetry(events, in.Operate.Start)
	} else {
		plan, err = fold.PlanRewind(events, to, nil)
	}
	if err != nil {
		return nil, err
	}
	return &plan.RewindPlan, nil
}

// operate publishes an operator request and waits for its outcome.
func (c operators) operate(ctx context.Context, v history.Verb, id string, o message.Operate, opts []OperateOption) (Operated, error) {
	w := c.client.newWaiter()
	defer c.client.forget(w.token)
	in := message.OutInput{Instance: id, Kind: message.KindOperate, Name: v.String(), Operate: o, Reply: c.client.inbox.Subject(w.token)}
	seq, err := publish(ctx, c.client, &in, opts)
	if err != nil {
		return Operated{}, err
	}
	r := storedRequest{c: c.client, id: id, seq: seq, pending: ErrPending}
	var out Operated
	err = r.wait(ctx, w, func(a request.Answer) error {
		if a.Problem != nil {
			return about(id, problem(a.Problem))
		}
		out = Operated{Instance: id, Status: Status(a.Status), Execution: a.Execution}
		return nil
	}, func(d *request.Description, err error) (over bool, _ error) {
		switch {
		case errors.Is(err, ErrNotFound):
			return true, err
		case err != nil:
			return false, nil //nolint:nilerr // the request is repeated
		case d.Control >= seq: // the last operator request that has taken effect
			out = Operated{Instance: id, Status: Status(d.Status), Execution: d.Execution}
			return true, nil
		case d.UnreadInputs == 0:
			return true, problem(&request.Problem{Code: request.ProblemRefused, Message: "instance " + id + ": the request had no effect"})
		default:
			return false, nil
		}
	})
	return out, err
}

// storedRequest is an input that the stream has stored, whose effect the caller waits for.
type storedRequest struct {
	c       *Client
	id      string
	seq     uint64 // position in the stream
	pending error  // matched by the error if the wait ends before the effect
}

// wait waits for the answer, which is pushed. The push may be lost, so check receives a description of the instance every
// Options.RepeatInterval, and reports whether the request has taken effect or failed.
func (r *storedRequest) wait(ctx context.Context, w *waiter, answered func(request.Answer) error, check func(*request.Description, error) (over bool, _ error)) error {
	repeat := time.NewTicker(r.c.opts.RepeatInterval)
	defer repeat.Stop()
	var last error // of the latest check, if it failed
	for {
		var err error
		select {
		case <-w.settled:
			return answered(w.answer)
		case <-r.c.done:
			err = ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		case <-repeat.C:
			var d *request.Description
			d, last = r.c.describe(ctx, r.id, r.seq)
			if over, err := check(d, last); over {
				return err
			}
			continue
		}
		if last != nil {
			return fmt.Errorf("%w: %s: %w (last: %w)", r.pending, r.id, err, last)
		}
		return fmt.Errorf("%w: %s: %w", r.pending, r.id, err)
	}
}
