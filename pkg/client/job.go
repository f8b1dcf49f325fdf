package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Job is a call of one activity, as a schedule runs it; NewJob returns one from a handle. In JSON its fields have the names of the HTTP API.
type Job struct {
	Activity       string            `json:"activity"`                 // name of the activity; required
	Queue          string            `json:"queue,omitempty"`          // task queue; default: the name of the activity
	Input          json.RawMessage   `json:"input,omitempty"`          // input of the activity in JSON; default: none
	After          Duration          `json:"after,omitzero"`           // delay before the first attempt; default: none
	Retry          *JobRetry         `json:"retry,omitempty"`          // default: one attempt
	AttemptTimeout Duration          `json:"attempt_timeout,omitzero"` // timeout of each attempt: see pawl.AttemptTimeout; default: none
	Within         Duration          `json:"within,omitzero"`          // timeout of all attempts, backoffs and waits, without After; default: none
	Limits         *history.Declared `json:"limits,omitempty"`         // limits that the handle of the activity declares; default: none
}

// JobRetry is the retry policy of a Job, a pawl.Retry in JSON. Fields that are zero have the defaults of pawl.Retry.
type JobRetry struct {
	Attempts int      `json:"attempts,omitempty"` // maximum number of attempts
	Initial  Duration `json:"initial,omitzero"`   // backoff after the first failed attempt
	Factor   float64  `json:"factor,omitempty"`   // by which each backoff is longer than the one before
	Max      Duration `json:"max,omitzero"`       // maximum backoff
	Unless   []string `json:"unless,omitempty"`   // codes of the errors that are not retried: see pawl.Error.Code
	Limited  bool     `json:"limited,omitempty"`  // whether rejections by a limit are retried, too
}

// Check returns an error if the name of the activity or of the queue is invalid.
func (j *Job) Check() error {
	b, err := builtin.Convert[builtin.Job](j)
	return cmp.Or(err, b.Check())
}

// Payload returns the job as the input of an instance of pawl.job. Errors: those of Check and of the encoding, and pawl.ErrTooLarge.
func (j *Job) Payload() (history.Payload, error) {
	b, err := builtin.Convert[builtin.Job](j)
	if err != nil {
		return history.Payload{}, err
	}
	return b.Payload()
}

// NewJob returns the job of a schedule: at each of its times the schedule does what Run does. The options By, MessageID and Header have
// no effect. The error is that of the encoding or of an invalid option.
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

// Run runs one activity as a job: an instance that needs no orchestration of the author. The result of the job is that of the activity,
// or its failure. The limits of the handle apply to it, and it is described, listed, cancelled and purged by its id like any instance. As
// with Start, an existing instance with the id is not changed, and Run returns when the stream has stored the start.
//
// Errors are those of Start. The input may be a few hundred bytes smaller than that of a call, because the job is stored as one payload.
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

// RunRaw is Run for an activity that is known by its name and task queue only; an empty queue is the queue with the activity's name.
// Limits that the handle declares do not apply to it, but policies set for the action do.
func (c *Client) RunRaw(ctx context.Context, activity, taskQueue, id string, in history.Payload, opts ...JobOption) (*RawInstance, error) {
	j := &Job{Activity: activity, Queue: taskQueue, Input: in.Data}
	for _, o := range opts {
		o.configure(j)
	}
	return c.run(ctx, j, id, opts)
}

// AttachJob returns the handle to a job that was started elsewhere. It makes no request.
func AttachJob[In, Out any](c *Client, a pawl.Activity[In, Out], id string) *Instance[Out] {
	return &Instance[Out]{raw: c.AttachRaw(id), decode: author.Result(a).Decode}
}

func (c *Client) run(ctx context.Context, j *Job, id string, opts []JobOption) (*RawInstance, error) {
	p, err := j.Payload()
	if err != nil {
		return nil, fmt.Errorf("client: run %s: %w", id, err)
	}
	return start(ctx, c, message.OutInput{Instance: id, Name: builtin.JobName, Payload: p}, opts)
}
