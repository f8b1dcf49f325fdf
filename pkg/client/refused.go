package client

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// Refused is the record of an input that was accepted and could not be used, because it is malformed or of a newer version, or because
// Redis refuses to store it. The input itself is not kept. A partition keeps its latest hundred records for a day.
type Refused struct {
	Instance string    // id of the instance to which it was sent
	At       time.Time // UTC
	Reason   string
}

// Refused iterates over the records of refused inputs, in the order and with the errors of List.
func (c *Client) Refused(ctx context.Context) iter.Seq2[Refused, error] {
	return func(yield func(Refused, error) bool) {
		for s, err := range c.Stalled(ctx) {
			if err == nil && s.Status != statusRefused {
				continue
			}
			if !yield(Refused{Instance: s.Instance, At: s.Updated, Reason: strings.TrimPrefix(s.Stalled, "refused: ")}, err) {
				return
			}
		}
	}
}

// statusRefused is the status of the record of a refused input in the reply about stalled instances.
const statusRefused Status = "refused"

// DropRefused removes the records of the refused inputs of an id. An instance with this id is not affected. Errors: ErrNotFound if there
// are none; ErrNoOwner, queue.ErrTimeout; queue.ErrPermission if the user does not have the role operator.
func (c fleet) DropRefused(ctx context.Context, id string) error {
	return c.client.requestInstance(ctx, id, &request.DropRefused{Instance: id}, new(request.Done))
}
