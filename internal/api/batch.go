package api

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/client"
)

// Batch is a batch with its progress.
type Batch struct {
	ID         string `json:"id"`
	Status     string `json:"status"` // of the batch as an instance
	Verb       string `json:"verb"`
	Where      string `json:"where"`           // filter; empty: all instances
	Event      string `json:"event,omitempty"` // name of the event; verb event only
	To         uint64 `json:"to,omitempty"`    // event to which instances are rewound; verb rewind only
	Stop       bool   `json:"stop,omitempty"`
	FromStart  bool   `json:"from_start,omitempty"`
	Force      bool   `json:"force,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Rate       int    `json:"rate,omitempty"`     // maximum number of requests per second
	Total      uint64 `json:"total"`              // instances that passed the filter before the start
	AtLeast    bool   `json:"at_least,omitempty"` // total may be higher
	Sent       uint64 `json:"sent"`               // requests sent
	Skipped    uint64 `json:"skipped"`            // instances that passed the filter and received no request
	Partition  int    `json:"partition"`          // being read; all lower ones are done
	Partitions int    `json:"partitions"`         // 0: the batch has not begun
	Began      string `json:"began,omitempty"`
	Problem    string `json:"problem,omitempty"` // why instances cannot be read; the batch retries
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

// Request describes the request of the batch with its options, for display.
func (b Batch) Request() string {
	switch {
	case b.Event != "":
		return "send " + b.Event
	case b.Force:
		return "purge, even if running"
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

// BatchCount is the number of instances to which a batch would apply.
type BatchCount struct {
	Count   uint64 `json:"count"`
	AtLeast bool   `json:"at_least,omitempty"` // count may be higher
}

// Batches is a list of batches.
type Batches struct {
	Batches []Batch `json:"batches"`
	More    bool    `json:"more,omitempty"` // there are more than the limit of the request
}
