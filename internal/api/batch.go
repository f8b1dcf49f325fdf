package api

import "github.com/pawlrun/pawl/pkg/client"

// Batch is a batch with its progress.
type Batch struct {
	ID         string `json:"id"`
	Status     string `json:"status"` // of its instance
	Verb       string `json:"verb"`
	Where      string `json:"where"` // empty: all instances
	Reason     string `json:"reason,omitempty"`
	Rate       int    `json:"rate,omitempty"`     // maximum requests a second
	Total      uint64 `json:"total"`              // instances that passed the filter before the start
	AtLeast    bool   `json:"at_least,omitempty"` // there may be more
	Sent       uint64 `json:"sent"`               // requests
	Skipped    uint64 `json:"skipped"`            // instances that passed the filter and got none
	Partition  int    `json:"partition"`          // that is read; all before it are done
	Partitions int    `json:"partitions"`         // 0: it has not begun
	Began      string `json:"began,omitempty"`
	Problem    string `json:"problem,omitempty"` // why the instances cannot be read; it is repeated
}

// BatchOf describes a batch.
func BatchOf(id string, status client.Status, st *client.BatchState) Batch {
	return Batch{
		ID: id, Status: string(status), Verb: string(st.Batch.Verb), Where: st.Batch.Where, Reason: st.Batch.Reason, Rate: st.Batch.Rate,
		Total: st.Total, AtLeast: st.AtLeast, Sent: st.Sent, Skipped: st.Skipped, Partition: st.Place.Partition, Partitions: st.Partitions,
		Began: Timestamp(st.Began), Problem: st.Problem,
	}
}

// BatchCount is the number of instances that a batch would concern.
type BatchCount struct {
	Count   uint64 `json:"count"`
	AtLeast bool   `json:"at_least,omitempty"` // there may be more
}

// Batches is a list of batches.
type Batches struct {
	Batches []Batch `json:"batches"`
	More    bool    `json:"more,omitempty"` // there are more than limit
}
