package api

import "github.com/pawlrun/pawl/pkg/client"

// Counts are the instances of a namespace by status.
type Counts struct {
	Pending    uint64 `json:"pending"`
	Running    uint64 `json:"running"`
	Completed  uint64 `json:"completed"`
	Failed     uint64 `json:"failed"`
	Cancelled  uint64 `json:"cancelled"`
	Stalled    uint64 `json:"stalled"`              // of all of them
	Incomplete string `json:"incomplete,omitempty"` // why instances are missing: partitions that did not answer
}

// CountsOf gives the counts by name.
func CountsOf(c client.Counts) Counts {
	return Counts{
		Pending: c.Status[client.Pending], Running: c.Status[client.Running], Completed: c.Status[client.Completed],
		Failed: c.Status[client.Failed], Cancelled: c.Status[client.Cancelled], Stalled: c.Stalled,
	}
}
