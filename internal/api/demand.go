package api

import "github.com/pawlrun/pawl/pkg/client"

// Demand is the amount of work of a task queue.
type Demand struct {
	Queue     string `json:"queue"`
	Demand    uint64 `json:"demand"`    // slots that the queue can use now: unclaimed + claimed
	Unclaimed uint64 `json:"unclaimed"` // tasks that no worker has claimed
	Claimed   uint64 `json:"claimed"`   // running activities
	Slots     uint64 `json:"slots"`     // slots of the workers that answered
	Workers   int    `json:"workers"`
}

// DemandOf converts the demand of a queue.
func DemandOf(queue string, d client.Demand) Demand {
	return Demand{Queue: queue, Demand: d.Total(), Unclaimed: d.Unclaimed, Claimed: d.Claimed, Slots: d.Slots, Workers: d.Workers}
}
