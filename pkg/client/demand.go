package client

import (
	"context"

	"github.com/pawlrun/pawl/internal/request"
)

// Demand is the work of a task queue, for an autoscaler of its workers.
type Demand struct {
	Unclaimed uint64 // tasks that no worker has claimed; those that a limit admits are among them
	Claimed   uint64 // activities that run, in the workers that answered
	Slots     uint64 // of these workers, for the queue
	Workers   int    // that read the queue
}

// Total is the number of slots that the queue can use now: unclaimed and claimed. A task that is claimed during the reading may be
// counted twice, and none is missing, so a worker that is busy is never surplus.
func (d Demand) Total() uint64 { return d.Unclaimed + d.Claimed }

// Demand reads the work of a task queue. Callers that wait at a limit with room are admitted at once, and are unclaimed tasks then;
// those that wait at a limit without room are not counted, because no further worker could run them. Workers that do not answer within
// half a second are missing. Errors: ErrNoOwner, queue.ErrTimeout.
func (c fleet) Demand(ctx context.Context, queue string) (Demand, error) {
	var r request.QueueDemand
	if err := c.client.request(ctx, policyPartition, &request.Demand{Queue: queue}, &r); err != nil {
		return Demand{}, err
	}
	return Demand(r), nil
}
