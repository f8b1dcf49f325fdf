package client

import (
	"context"

	"github.com/pawlrun/pawl/internal/request"
)

// Demand is the demand for slots of a task queue, for an autoscaler of its workers.
type Demand struct {
	Unclaimed uint64 // tasks that no worker has claimed, including those of newly admitted callers
	Claimed   uint64 // running activities of the workers that answered
	Slots     uint64 // slots of these workers for the queue
	Workers   int    // number of workers that answered and take tasks from the queue
}

// Total returns the number of slots that the queue can use now: unclaimed plus claimed. A task that is claimed while Demand reads may be
// counted twice, but none is missed, so a busy worker is never reported as surplus.
func (d Demand) Total() uint64 { return d.Unclaimed + d.Claimed }

// Demand returns the demand of a task queue. Callers that wait at a limit with room are admitted first and are counted as unclaimed
// tasks. Callers that wait at a limit without room are not counted, because another worker could not run them. Workers that do not answer
// within half a second are missing. Errors: ErrNoOwner, queue.ErrTimeout.
func (c fleet) Demand(ctx context.Context, queue string) (Demand, error) {
	var r request.QueueDemand
	if err := c.client.request(ctx, policyPartition, &request.Demand{Queue: queue}, &r); err != nil {
		return Demand{}, err
	}
	return Demand(r), nil
}
