package client

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Run runs one activity as a job: an instance of its own, without an orchestration to write. The job has the result of the activity, or
// its failure; the limits of the handle hold for it; and it is described, listed, cancelled and purged by its id as any instance. As with
// Start, an existing instance of the id is not changed, and Run returns when the stream has stored the start.
//
// Errors are those of Start. The input may be a few hundred bytes smaller than that of a call, because the job is one payload.
func Run[In, Out any](ctx context.Context, c *Client, a pawl.Activity[In, Out], id string, in In, opts ...JobOption) (*Instance[Out], error) {
	p, err := author.Input(a).Encode(in)
	if err != nil {
		return nil, fmt.Errorf("client: run %s: %w", id, err)
	}
	raw, err := c.run(ctx, builtin.Job{Activity: a.Name(), Queue: a.Queue(), Input: p.Data, Limits: author.Limits(a)}, id, opts)
	if err != nil {
		return nil, err
	}
	return &Instance[Out]{raw: raw, decode: author.Result(a).Decode}, nil
}

// RunRaw is Run for an activity that is known by its name and task queue only; an empty queue is that of the activity's name. The
// limits that its handle declares do not hold for it, but policies of the action do.
func (c *Client) RunRaw(ctx context.Context, activity, taskQueue, id string, in history.Payload, opts ...JobOption) (*RawInstance, error) {
	return c.run(ctx, builtin.Job{Activity: activity, Queue: taskQueue, Input: in.Data}, id, opts)
}

// AttachJob returns the Instance of a job that was started elsewhere: Attach for jobs.
func AttachJob[In, Out any](c *Client, a pawl.Activity[In, Out], id string) *Instance[Out] {
	return &Instance[Out]{raw: c.AttachRaw(id), decode: author.Result(a).Decode}
}

func (c *Client) run(ctx context.Context, j builtin.Job, id string, opts []JobOption) (*RawInstance, error) {
	for _, o := range opts {
		o.configure(&j)
	}
	p, err := j.Payload()
	if err != nil {
		return nil, fmt.Errorf("client: run %s: %w", id, err)
	}
	return start(ctx, c, queue.OutInput{Instance: id, Name: builtin.JobName, Payload: p}, opts)
}
