package builtin

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// JobName is the name of the orchestration that runs one activity.
const JobName = "pawl.job"

// Job is the input of pawl.job: a call of one activity.
//
//	started ──After──▶ activity, with its retries and at its limits ──▶ its result or failure is that of the job
//	cancelled, at any time: the commit that records it deletes the lease of the activity
//
// A job has the same turns, scripts and messages as an orchestration that calls one activity; After adds a timer.
type Job struct {
	Activity       string            `json:"activity"`
	Queue          string            `json:"queue,omitempty"`          // default: the name of the activity
	Input          json.RawMessage   `json:"input,omitempty"`          // input of the activity; default: none
	After          text.Duration     `json:"after,omitzero"`           // delay; default: none
	Retry          *Retry            `json:"retry,omitempty"`          // default: one attempt
	AttemptTimeout text.Duration     `json:"attempt_timeout,omitzero"` // default: none
	Within         text.Duration     `json:"within,omitzero"`          // bounds all attempts, backoffs and waits, without After; default: none
	Limits         *history.Declared `json:"limits,omitempty"`         // limits that the handle declares
}

// Retry is a pawl.Retry in JSON. Zero fields have the same defaults.
type Retry struct {
	Attempts int           `json:"attempts,omitempty"`
	Initial  text.Duration `json:"initial,omitzero"`
	Factor   float64       `json:"factor,omitempty"`
	Max      text.Duration `json:"max,omitzero"`
	Unless   []string      `json:"unless,omitempty"` // codes of sentinels
	Limited  bool          `json:"limited,omitempty"`
}

// Check returns an error if a name in the job is invalid.
func (j *Job) Check() error {
	if err := pawl.ValidateName(j.Activity); err != nil || j.Queue == "" {
		return err
	}
	return pawl.ValidateName(j.Queue)
}

// Payload returns the job as an input.
func (j *Job) Payload() (history.Payload, error) {
	if err := j.Check(); err != nil {
		return history.Payload{}, err
	}
	b, err := json.Marshal(j) //nolint:musttag // the fields of Declared have no tags
	if err == nil && len(b) > replay.MaxPayload {
		err = fmt.Errorf("a job with its input has %d bytes, and the limit is %d: %w", len(b), replay.MaxPayload, pawl.ErrTooLarge)
	}
	return history.Payload{Type: history.TypeJSON, Data: b}, err
}

func (j *Job) call() replay.Call {
	c := replay.Call{
		Activity: j.Activity, Queue: j.Queue, AttemptTimeout: j.AttemptTimeout.Std(), Within: j.Within.Std(), Declared: j.Limits,
	}
	if c.Queue == "" {
		c.Queue = j.Activity
	}
	if len(j.Input) > 0 {
		c.Payload = history.Payload{Type: history.TypeJSON, Data: j.Input}
	}
	if r := j.Retry; r != nil {
		c.Retry = replay.Retry{
			Attempts: r.Attempts, Initial: r.Initial.Std(), Factor: r.Factor, Max: r.Max.Std(), Unless: r.Unless, Limited: r.Limited,
		}.WithDefaults()
	}
	return c
}

// job is the program of pawl.job.
func job(x *replay.Code) replay.Ending {
	result, err := runJob(x)
	if err == nil {
		return replay.Ending{Result: result}
	}
	if f, ok := errors.AsType[*history.Failure](err); ok {
		err = &pawl.Failure{Failure: *f}
	}
	_, cancelled := errors.AsType[*pawl.Cancelled](err)
	return replay.Ending{Failure: author.ToFailure(err), Cancelled: cancelled}
}

func runJob(x *replay.Code) (history.Payload, error) {
	var j Job
	if err := json.Unmarshal(x.Input().Data, &j); err != nil { //nolint:musttag // as above
		return history.Payload{}, fmt.Errorf("input of %s: %w: %w", JobName, err, pawl.ErrUndecodable)
	}
	if err := j.Check(); err != nil {
		return history.Payload{}, err
	}
	if j.After > 0 {
		if err := x.Wait(x.Timer(j.After.Std(), nil), nil); err != nil {
			return history.Payload{}, err
		}
	}
	call := x.Call(j.call())
	if err := x.Wait(call, nil); err != nil {
		return history.Payload{}, err
	}
	return call.Value()
}
