package client

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Status is where an instance stands. What it says of itself is its custom status: see
// CustomStatus.
type Status string

// The statuses.
const (
	Pending   Status = queue.StatusPending // it waits at the gate of its orchestration for its first turn, or for its start
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

func (s Status) ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Description is what an owner tells about an instance. In a listing only the record
// is filled in: no outstanding activities and children, timers, inbox, gates that are waited at,
// custom status, result or failure.
type Description = queue.Described

// Describe asks the owner of an instance about it. Errors: ErrNotFound, ErrNoOwner,
// queue.ErrTimeout.
func (c *Client) Describe(ctx context.Context, id string) (Description, error) {
	if err := pawl.ValidateID(id); err != nil {
		return Description{}, fmt.Errorf("client: %w", err)
	}
	r, err := c.ask(ctx, c.conn.PartitionOf(id), queue.Ask{Op: queue.OpDescribe, Instance: id})
	switch {
	case err != nil:
		return Description{}, err
	case r.Described == nil:
		return Description{}, fmt.Errorf("client: the owner of %s gave no description", id)
	}
	return *r.Described, nil
}
