package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/pkg/client"
)

// importBody is the body of a request to import an instance.
type importBody struct {
	Export   json.RawMessage `json:"export"`             // the answer of exportInstance
	Continue bool            `json:"continue,omitempty"` // continue an instance that had not ended; otherwise it is cancelled, and a retry continues it
	Reason   string          `json:"reason,omitempty"`   // reason for the continuation
}

// importInstance imports an instance, as one that the user has started.
func importInstance(c *call) (answer, error) {
	var b importBody
	if err := c.decode(&b); err != nil {
		return answer{}, err
	}
	shared, err := c.options()
	if err != nil {
		return answer{}, err
	}
	opts := []client.ImportOption{client.Reason(b.Reason)}
	for _, o := range shared {
		opts = append(opts, o)
	}
	if b.Continue {
		opts = append(opts, client.Continue())
	}
	ctx, cancel := context.WithTimeout(c.Context(), requestTime)
	defer cancel()
	id := c.PathValue("id")
	got, err := c.client.Import(ctx, id, b.Export, opts...)
	if errors.Is(err, client.ErrPending) && c.Context().Err() == nil {
		return accepted(id), nil
	}
	return answer{location: instancePath(id), body: api.OperatedOf(got)}, err
}
