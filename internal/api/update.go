package api

import (
	"encoding/json"
	"errors"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// UpdateAnswer is the answer to an update.
type UpdateAnswer struct {
	Instance string          `json:"instance"`
	Update   string          `json:"update"`
	ID       string          `json:"id"`
	Status   string          `json:"status"` // answered, rejected, expired, ended; open: not answered yet
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
	Code     string          `json:"code,omitempty"` // code of the rejection
}

// UpdateAnswerOf converts the result of a client.RawUpdate. It returns err if err does not describe an answer.
func UpdateAnswerOf(instance, update, id string, result history.Payload, err error) (UpdateAnswer, error) {
	a := UpdateAnswer{Instance: instance, Update: update, ID: id, Status: "answered", Result: show.Payload(result)}
	if err == nil {
		return a, nil
	}
	failure, ok := errors.AsType[*pawl.Failure](err)
	if !ok {
		return a, err
	}
	a.Result, a.Error, a.Code = nil, failure.Message, failure.Code
	switch {
	case errors.Is(err, pawl.ErrUpdateExpired):
		a.Status = "expired"
	case errors.Is(err, pawl.ErrUpdateEnded):
		a.Status = "ended"
	default:
		a.Status = "rejected"
	}
	return a, nil
}

// QueryAnswer is the answer to a query.
type QueryAnswer struct {
	Instance  string          `json:"instance"`
	Query     string          `json:"query"`
	Value     json.RawMessage `json:"value,omitempty"`
	Execution uint64          `json:"execution"`
	Events    uint64          `json:"events"` // length of the history on which the answer is based
}

// QueryAnswerOf converts the answer to a query.
func QueryAnswerOf(instance, query string, a client.QueryAnswer[history.Payload]) QueryAnswer {
	return QueryAnswer{Instance: instance, Query: query, Value: show.Payload(a.Value), Execution: a.Execution, Events: a.Events}
}

// OpenUpdate is an update without an answer.
type OpenUpdate struct {
	Name     string          `json:"name"`
	ID       string          `json:"id"`
	By       string          `json:"by,omitempty"`
	At       string          `json:"at"`
	Deadline string          `json:"deadline,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
}
