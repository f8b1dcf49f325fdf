package client

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// Refused is the note of an input that was accepted and could not be used: it is malformed, of a newer version, or Redis refuses to store
// it. The input itself is not kept. A partition keeps its latest hundred notes for a day.
type Refused struct {
	Instance string // for which it was
	At       time.Time
	Reason   string
}

// Refused iterates over the notes of refused inputs, as List does.
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

// statusRefused is the status of a note among the stalled instances.
const statusRefused Status = "refused"

// DropRefused removes the notes of the refused inputs of an id. An instance of that id is not affected. Errors: ErrNotFound if there are none;
// ErrNoOwner, queue.ErrTimeout, queue.ErrPermission for a user that is no operator.
func (c fleet) DropRefused(ctx context.Context, id string) error {
	return c.client.requestInstance(ctx, id, &request.DropRefused{Instance: id}, new(request.Done))
}
