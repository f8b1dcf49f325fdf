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

// Outcome describes how an instance ended.
type Outcome struct {
	Instance string          `json:"instance"`
	Status   client.Status   `json:"status"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
	Code     string          `json:"code,omitempty"` // code of the failure
}

// OutcomeOf converts the result of a client.RawInstance. It returns err if err does not describe the end of the
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

// Accepted is the answer to a message that the stream has stored. The message will take effect even if all processes die.
type Accepted struct {
	Instance string `json:"instance"`
	Accepted bool   `json:"accepted"`          // always true
	Started  bool   `json:"started,omitempty"` // the start has taken effect; only if the request waits for that

	Update *UpdateAnswer `json:"update,omitempty"` // answer to the update that was sent with a start
}
