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

// Job is an activity with its input, as a schedule runs it: see NewJob. Activity is required. Queue, by default the name of the activity,
// Input and the rest may be left out.
type Job = builtin.Job

// NewJob makes the job of a schedule: at each of its times it does what Run does. Of the options By, MessageID and Header have no effect.
func NewJob[In, Out any](a pawl.Activity[In, Out], in In, opts ...JobOption) (*Job, error) {
	j, err := jobOf(a, in, opts)
	if err == nil {
		_, err = j.Payload()
	}
	if err != nil {
		return nil, fmt.Errorf("client: job of %s: %w", a.Name(), err)
	}
	return j, nil
}

func jobOf[In, Out any](a pawl.Activity[In, Out], in In, opts []JobOption) (*Job, error) {
	p, err := author.Input(a).Encode(in)
	j := &Job{Activity: a.Name(), Queue: a.Queue(), Input: p.Data, Limits: author.Limits(a)}
	for _, o := range opts {
		o.configure(j)
	}
	return j, err
}

// Run runs one activity as a job: an instance of its own, without an orchestration to write. The job has the result of the activity, or
// its failure; the limits of the handle hold for it; and it is described, listed, cancelled and purged by its id as any instance. As with
// Start, an existing instance of the id is not changed, and Run returns when the stream has stored the start.
//
// Errors are those of Start. The input may be a few hundred bytes smaller than that of a call, because the job is one payload.
func Run[In, Out any](ctx context.Context, c *Client, a pawl.Activity[In, Out], id string, in In, opts ...JobOption) (*Instance[Out], error) {
	j, err := jobOf(a, in, opts)
	if err != nil {
		return nil, fmt.Errorf("client: run %s: %w", id, err)
	}
	raw, err := c.run(ctx, j, id, opts)
	if err != nil {
		return nil, err
	}
	return &Instance[Out]{raw: raw, decode: author.Result(a).Decode}, nil
}

// RunRaw is Run for an activity that is known by its name and task queue only; an empty queue is that of the activity's name. The
// limits that its handle declares do not hold for it, but policies of the action do.
func (c *Client) RunRaw(ctx context.Context, activity, taskQueue, id string, in history.Payload, opts ...JobOption) (*RawInstance, error) {
	j := &Job{Activity: activity, Queue: taskQueue, Input: in.Data}
	for _, o := range opts {
		o.configure(j)
	}
	return c.run(ctx, j, id, opts)
}

// AttachJob returns the Instance of a job that was started elsewhere: Attach for jobs.
func AttachJob[In, Out any](c *Client, a pawl.Activity[In, Out], id string) *Instance[Out] {
	return &Instance[Out]{raw: c.AttachRaw(id), decode: author.Result(a).Decode}
}

func (c *Client) run(ctx context.Context, j *Job, id string, opts []JobOption) (*RawInstance, error) {
	p, err := j.Payload()
	if err != nil {
		return nil, fmt.Errorf("client: run %s: %w", id, err)
	}
	return start(ctx, c, queue.OutInput{Instance: id, Name: builtin.JobName, Payload: p}, opts)
}
