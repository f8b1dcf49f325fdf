package api

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// Outcome is how an instance ended.
type Outcome struct {
	Instance string          `json:"instance"`
	Status   client.Status   `json:"status"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
	Code     string          `json:"code,omitempty"` // of the failure
}

// OutcomeOf returns the outcome in the result of a client.RawInstance. The error is err if it is not an end of the
// instance.
func OutcomeOf(instance string, result history.Payload, err error) (Outcome, error) {
	if err == nil {
		return Outcome{Instance: instance, Status: client.Completed, Result: show.Payload(result)}, nil
	}
	failure, ended := errors.AsType[*pawl.Failure](err)
	if !ended {
		return Outcome{}, err
	}
	o := Outcome{Instance: instance, Status: client.Failed, Error: failure.Message, Code: failure.Code}
	if errors.Is(err, context.Canceled) {
		o.Status = client.Cancelled
	}
	return o, nil
}

// Accepted is the answer to a message that the stream has stored. It takes effect, also if every process dies.
type Accepted struct {
	Instance string `json:"instance"`
	Accepted bool   `json:"accepted"`          // true
	Started  bool   `json:"started,omitempty"` // it was waited for, and the start has taken effect

	Update *UpdateAnswer `json:"update,omitempty"` // that was sent with a start
}
