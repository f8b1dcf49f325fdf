package client

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// QueryAnswer is the answer to a query, with the history on which it is based.
type QueryAnswer[Out any] struct {
	Value     Out
	Execution uint64 // number of the execution
	Events    uint64 // number of events of that history
}

// Query sends a query to an instance, which answers it from its state and without an effect. The error is a *pawl.Failure that the
// handler returned; ErrNotFound; ErrRefused if the instance has not started, has no such query, or its handler took longer than 50 ms; or
// one of Describe.
func Query[In, Out any](ctx context.Context, c *Client, q pawl.Query[In, Out], id string, in In) (QueryAnswer[Out], error) {
	p, err := author.Input(q).Encode(in)
	if err != nil {
		return QueryAnswer[Out]{}, fmt.Errorf("client: query %s of %s: %w", q.Name(), id, err)
	}
	raw, err := c.QueryRaw(ctx, q.Name(), id, p)
	if err != nil {
		return QueryAnswer[Out]{}, err
	}
	out := QueryAnswer[Out]{Execution: raw.Execution, Events: raw.Events}
	if out.Value, err = author.Result(q).Decode(raw.Value); err != nil {
		return out, fmt.Errorf("client: answer to query %s of %s: %w", q.Name(), id, err)
	}
	return out, nil
}

// QueryRaw is Query for a query that is known by its name only.
func (c *Client) QueryRaw(ctx context.Context, name, id string, p history.Payload) (QueryAnswer[history.Payload], error) {
	var r request.QueryAnswer
	if n := len(p.Data); n > transport.MaxPayload {
		return QueryAnswer[history.Payload]{}, fmt.Errorf("client: query %s of %s: %w", name, id, tooLarge(n, transport.MaxPayload))
	}
	err := c.requestInstance(ctx, id, &request.Query{Instance: id, Name: name, Payload: c.codec().Seal(nil, p)}, &r)
	if err == nil {
		err = c.openResult(c.codec().Open, id, &r.Result, &r.Failure)
	}
	if err != nil {
		return QueryAnswer[history.Payload]{}, err
	}
	if r.Failure != nil {
		return QueryAnswer[history.Payload]{}, &pawl.Failure{Failure: *r.Failure}
	}
	return QueryAnswer[history.Payload]{Value: r.Result, Execution: r.Execution, Events: r.Events}, nil
}
