package api

import "github.com/pawlrun/pawl/pkg/client"

// Partition is a partition with the orchestrator that owns it.
type Partition struct {
	Partition int    `json:"partition"`
	Owner     string `json:"owner,omitempty"` // left out: no owner has answered
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Since     string `json:"since,omitempty"` // beginning of the tenure
	LagMS     int64  `json:"lag_ms"`          // age of the oldest input that was read and is not ingested
	Epoch     int64  `json:"epoch,omitempty"` // number of tenures so far
}

// Partitions are all partitions, in order.
type Partitions struct {
	Partitions []Partition `json:"partitions"`
	Incomplete string      `json:"incomplete,omitempty"` // why owners are missing
}

// PartitionOf converts a partition.
func PartitionOf(p client.Partition) Partition {
	return Partition{
		Partition: p.Partition, Owner: p.Owner, Host: p.Host, PID: p.PID, Since: Timestamp(p.Since), LagMS: p.Lag.Milliseconds(), Epoch: p.Epoch,
	}
}
