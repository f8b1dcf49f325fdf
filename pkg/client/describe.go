package client

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Status is where an instance stands. What it says of itself is its custom status: see
// CustomStatus.
type Status string

// The statuses.
const (
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

func (s Status) ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Description is what an owner tells about an instance. In a listing only the record
// is filled in: no outstanding activities and children, timers, inbox, custom status,
// result or failure.
type Description = queue.Described

// Describe asks the owner of an instance about it. Errors: ErrNotFound, ErrNoOwner,
// queue.ErrTimeout.
func Describe(ctx context.Context, c *Client, id string) (Description, error) {
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

// Entry is one event of a history as it is kept, and what it means.
type Entry struct {
	Execution uint64
	Event     history.Event
	Raw       []byte
}

// History gives the events of an execution (0: the latest) of an instance, in order,
// reading on as they are taken. The first error ends it: those of Describe (ErrNotFound
// also for an execution that there is not), or history's for an event that can not be read.
func History(ctx context.Context, c *Client, id string, execution uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := pawl.ValidateID(id); err != nil {
			yield(Entry{}, fmt.Errorf("client: %w", err))
			return
		}
		for after := uint64(0); ; {
			r, err := c.ask(ctx, c.conn.PartitionOf(id), queue.Ask{Op: queue.OpHistory, Instance: id, Execution: execution, After: after})
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if after == 0 && len(r.Events) == 0 {
				yield(Entry{}, fmt.Errorf("%w: %s has no execution %d", ErrNotFound, id, r.Execution))
				return
			}
			execution = r.Execution // the latest may change between pages
			for _, raw := range r.Events {
				after++
				e, err := history.Decode(after, raw)
				if err != nil {
					err = fmt.Errorf("client: history of %s: %w", id, err)
				}
				if !yield(Entry{Execution: execution, Event: e, Raw: raw}, err) || err != nil {
					return
				}
			}
			if !r.More || len(r.Events) == 0 {
				return
			}
		}
	}
}
