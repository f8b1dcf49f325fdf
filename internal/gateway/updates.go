package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

func updateOperations() []operation {
	const instance = root + "/instances/{id}"
	return []operation{
		{
			method: http.MethodPost, path: instance + "/updates/{name}", id: "sendUpdate", role: access.Operator, serve: sendUpdate, keyed: true,
			summary: "Send an update; the body is its input. Wait for the answer; 202 while it is open.",
			request: any(anyJSON{}), optional: true, replies: map[int]any{200: api.UpdateAnswer{}, 202: api.UpdateAnswer{}},
			query: []parameter{waitParam, {name: "deadline", description: "The update expires if the instance has not received it within this time, such as 30s."}},
		},
		{
			method: http.MethodPost, path: instance + "/queries/{name}", id: "queryInstance", role: access.Viewer, serve: queryInstance,
			summary: "Query the state of an instance; the body is the input of the query.",
			request: any(anyJSON{}), optional: true, replies: map[int]any{200: api.QueryAnswer{}},
		},
	}
}

// namedBody reads the instance and the name from the path, and the body, which is any JSON value or empty.
func (c *call) namedBody() (id, name string, p history.Payload, err error) {
	data, err := c.body()
	if err == nil && len(data) > 0 && !json.Valid(data) {
		err = badRequest("the body is not JSON")
	}
	id, name = c.PathValue("id"), c.PathValue("name")
	if err == nil {
		err = errors.Join(pawl.ValidateID(id), pawl.ValidateName(name))
	}
	return id, name, payload(data), err
}

// sendUpdate sends an update. Without wait it answers after at most one second, whether or not the update is completed.
// Requests with the same Idempotency-Key have the same answer.
func sendUpdate(c *call) (answer, error) {
	id, name, p, err := c.namedBody()
	if err != nil {
		return answer{}, err
	}
	timeout, err := wait(c.query.Get("wait"))
	if err != nil {
		return answer{}, err
	}
	options, err := c.options()
	if err != nil {
		return answer{}, err
	}
	opts := make([]client.UpdateOption, 0, len(options)+1)
	for _, o := range options {
		opts = append(opts, o)
	}
	if text := c.query.Get("deadline"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return answer{}, badRequest("deadline must be a duration above zero, such as 30s")
		}
		opts = append(opts, client.Deadline(d))
	}
	sent, err := c.client.SendUpdateRaw(c.Context(), name, id, p, opts...)
	if err != nil {
		return answer{}, err
	}
	a, open, err := c.answered(sent, id, name, timeout)
	if open {
		return answer{status: http.StatusAccepted, body: a}, nil
	}
	return answer{body: a}, err
}

// answered waits for the answer to an update, for at least a second. It reports whether the update is still open.
func (c *call) answered(sent *client.RawUpdate, id, name string, timeout time.Duration) (a api.UpdateAnswer, open bool, err error) {
	ctx, cancel := context.WithTimeout(c.Context(), max(timeout, time.Second))
	defer cancel()
	result, err := sent.Answer(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !client.Rejected(err) && c.Context().Err() == nil {
		return api.UpdateAnswer{Instance: id, Update: name, ID: sent.ID(), Status: "open"}, true, nil
	}
	a, err = api.UpdateAnswerOf(id, name, sent.ID(), result, err)
	return a, false, err
}

// updateWithStart starts an instance, unless its id is in use, and sends it an update.
func (c *call) updateWithStart(s *api.Start, opts []client.InstanceOption, timeout time.Duration) (answer, error) {
	sends := make([]client.UpdateOption, 0, len(opts))
	for _, o := range opts {
		sends = append(sends, o)
	}
	sent, err := c.client.UpdateWithStartRaw(c.Context(), s.Orchestration, s.ID, payload(s.Input), s.Update.Name, payload(s.Update.Data), sends...)
	if err != nil {
		return answer{}, err
	}
	out := api.Accepted{Instance: s.ID, Accepted: true, Update: new(api.UpdateAnswer)}
	*out.Update, _, err = c.answered(sent, s.ID, s.Update.Name, timeout)
	return answer{status: http.StatusAccepted, location: instancePath(s.ID), body: out}, err
}

func queryInstance(c *call) (answer, error) {
	id, name, p, err := c.namedBody()
	if err != nil {
		return answer{}, err
	}
	got, err := c.client.QueryRaw(c.Context(), name, id, p)
	if f, ok := errors.AsType[*pawl.Failure](err); ok {
		return answer{}, badRequest("query %s: %s", name, f.Message)
	}
	return answer{body: api.QueryAnswerOf(id, name, got)}, err
}
