package transport

import (
	"sync/atomic"
)

// Stats are counts since the Conn was opened. Package promx exports them to Prometheus.
type Stats struct {
	Inputs, Tasks uint64 // acknowledged publishes
	Failed        uint64 // publishes that failed, or whose outcome is unknown
	Received      uint64 // inputs read, including those with a Problem
	Unusable      uint64 // inputs read that have a Problem
	Gaps          uint64 // attaches that found messages removed before they were read
	Delivered     uint64 // tasks received by their worker
	Returned      uint64 // tasks returned by a puller that stopped or was set up again
	Poison        uint64 // task messages that could not be decoded, removed
	Forged        uint64 // task messages whose content does not match their effect id, removed
	Resets        uint64 // readers and pullers that had to be set up again
	Ignored       uint64 // core-NATS messages that could not be decoded
	ObjectsRead   uint64
	ObjectsStored uint64 // including repetitions
	ObjectErrors  uint64 // failed reads and writes of objects, and objects that the store did not have
}

type counters struct {
	inputs, tasks, failed, received, unusable, gaps, delivered, returned, poison, forged, resets, ignored, objectsRead, objectsStored, objectErrors atomic.Uint64
}

// Stats returns the counts.
func (c *link) Stats() Stats {
	n := &c.count
	return Stats{
		Inputs: n.inputs.Load(), Tasks: n.tasks.Load(), Failed: n.failed.Load(),
		Received: n.received.Load(), Unusable: n.unusable.Load(), Gaps: n.gaps.Load(),
		Delivered: n.delivered.Load(), Returned: n.returned.Load(), Poison: n.poison.Load(), Forged: n.forged.Load(),
		Resets: n.resets.Load(), Ignored: n.ignored.Load(),
		ObjectsRead: n.objectsRead.Load(), ObjectsStored: n.objectsStored.Load(), ObjectErrors: n.objectErrors.Load(),
	}
}
