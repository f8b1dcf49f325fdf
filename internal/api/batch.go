package api

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/client"
)

// Batch is a batch with its progress.
type Batch struct {
	ID         string `json:"id"`
	Status     string `json:"status"` // of its instance
	Verb       string `json:"verb"`
	Where      string `json:"where"`           // empty: all instances
	Event      string `json:"event,omitempty"` // of event: its name
	To         uint64 `json:"to,omitempty"`    // of rewind
	Stop       bool   `json:"stop,omitempty"`
	FromStart  bool   `json:"from_start,omitempty"`
	Force      bool   `json:"force,omitempty"`
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
	b := &st.Batch
	return Batch{
		ID: id, Status: string(status), Verb: string(b.Verb), Where: b.Where, Event: b.Event, To: b.To, Stop: b.Stop, FromStart: b.FromStart, Force: b.Force, Reason: b.Reason, Rate: b.Rate,
		Total: st.Total, AtLeast: st.AtLeast, Sent: st.Sent, Skipped: st.Skipped, Partition: st.Place.Partition, Partitions: st.Partitions,
		Began: Timestamp(st.Began), Problem: st.Problem,
	}
}

// Request is the request of the batch with what distinguishes it, for a person.
func (b Batch) Request() string {
	switch {
	case b.Event != "":
		return "send " + b.Event
	case b.Force:
		return "purge, also if running"
	case b.Stop:
		return "pause, stopping what runs"
	case b.FromStart:
		return "retry from the start"
	case b.To != 0:
		return fmt.Sprintf("rewind to event %d", b.To)
	default:
		return b.Verb
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
