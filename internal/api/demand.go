package api

import "github.com/pawlrun/pawl/pkg/client"

// Demand is the work of a task queue.
type Demand struct {
	Queue     string `json:"queue"`
	Demand    uint64 `json:"demand"`    // slots that the queue can use now: unclaimed and claimed
	Unclaimed uint64 `json:"unclaimed"` // tasks that no worker has claimed
	Claimed   uint64 `json:"claimed"`   // activities that run
	Slots     uint64 `json:"slots"`     // of the workers that answered
	Workers   int    `json:"workers"`
}

// DemandOf describes the work of a queue.
func DemandOf(queue string, d client.Demand) Demand {
	return Demand{Queue: queue, Demand: d.Total(), Unclaimed: d.Unclaimed, Claimed: d.Claimed, Slots: d.Slots, Workers: d.Workers}
}
