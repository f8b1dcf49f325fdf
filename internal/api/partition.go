package api

import "github.com/pawlrun/pawl/pkg/client"

// Partition is a partition with the orchestrator that owns it.
type Partition struct {
	Partition int    `json:"partition"`
	Owner     string `json:"owner,omitempty"` // left out: none has answered
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Since     string `json:"since,omitempty"` // when it became the owner
	LagMS     int64  `json:"lag_ms"`          // age of the oldest input that is read and not stored
	Epoch     int64  `json:"epoch,omitempty"` // number of owners so far
}

// Partitions are all partitions, in order.
type Partitions struct {
	Partitions []Partition `json:"partitions"`
	Incomplete string      `json:"incomplete,omitempty"` // why owners are missing
}

// PartitionOf describes a partition.
func PartitionOf(p client.Partition) Partition {
	return Partition{
		Partition: p.Partition, Owner: p.Owner, Host: p.Host, PID: p.PID, Since: Timestamp(p.Since), LagMS: p.Lag.Milliseconds(), Epoch: p.Epoch,
	}
}
