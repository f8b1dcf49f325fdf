package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// Batch is a request to every instance that passes a filter.
type Batch struct {
	Verb  BatchVerb `json:"verb"`
	Where string    `json:"where,omitempty"` // filter; durations in it count from the start of the batch
	All   bool      `json:"all,omitempty"`   // required without Where

	Reason    string          `json:"reason,omitempty"`     // at most 1 KiB
	Rate      int             `json:"rate,omitempty"`       // maximum requests a second; 0: no limit
	Event     string          `json:"event,omitempty"`      // of event: its name
	Data      json.RawMessage `json:"data,omitempty"`       // of event; default: none
	To        uint64          `json:"to,omitempty"`         // of rewind: the last event that is kept
	Stop      bool            `json:"stop,omitempty"`       // of pause: also cancel what runs
	FromStart bool            `json:"from_start,omitempty"` // of retry
	Force     bool            `json:"force,omitempty"`      // of purge: also running instances
}

// BatchVerb is what a batch requests of each instance.
type BatchVerb string

// The verbs.
const (
	BatchCancel    BatchVerb = "cancel"
	BatchTerminate BatchVerb = "terminate"
	BatchPause     BatchVerb = "pause"
	BatchResume    BatchVerb = "resume"
	BatchRetry     BatchVerb = "retry"
	BatchRewind    BatchVerb = "rewind"
	BatchPurge     BatchVerb = "purge"
	BatchEvent     BatchVerb = "event"
)

// BatchVerbs lists the verbs.
func BatchVerbs() []BatchVerb {
	return []BatchVerb{BatchCancel, BatchTerminate, BatchPause, BatchResume, BatchRetry, BatchRewind, BatchPurge, BatchEvent}
}

const (
	maxBatchRate = 100_000
	maxBatchData = 64 << 10 // bytes of an event
)

// Check returns what is wrong with a batch.
func (b *Batch) Check() error {
	var wrong []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf("batch: "+format, args...))
		}
	}
	add(!slices.Contains(BatchVerbs(), b.Verb), "verb %q: must be one of %s", text.Shorten(string(b.Verb), maxNote), BatchVerbs())
	add(b.Where == "" && !b.All, "where is required, or all to select every instance")
	add(b.Where != "" && b.All, "all excludes where")
	if _, err := filter.Parse(b.Where, time.Now()); err != nil {
		wrong = append(wrong, fmt.Errorf("batch: where: %w", err))
	}
	add(b.Rate < 0 || b.Rate > maxBatchRate, "rate must be 0 to %d (got %d)", maxBatchRate, b.Rate)
	add(len(b.Reason) > maxNote, "reason has %d bytes; at most %d", len(b.Reason), maxNote)
	add(len(b.Data) > maxBatchData, "data has %d bytes; at most %d", len(b.Data), maxBatchData)
	if b.Verb == BatchEvent {
		wrong = append(wrong, pawl.ValidateName(b.Event))
	}
	add(b.Verb != BatchEvent && (b.Event != "" || len(b.Data) > 0), "event and data are of the verb event")
	add((b.Verb == BatchRewind) != (b.To != 0), "rewind requires to, and no other verb has it")
	add(b.Stop && b.Verb != BatchPause || b.FromStart && b.Verb != BatchRetry || b.Force && b.Verb != BatchPurge,
		"stop is of pause, from_start of retry, and force of purge")
	return errors.Join(wrong...)
}

// Statuses are the statuses of the instances that the verb can have an effect on.
func (b *Batch) Statuses() []string {
	switch b.Verb {
	case BatchPause:
		return []string{"pending", "running"}
	case BatchResume:
		return []string{"paused"}
	case BatchRetry:
		return []string{"failed", "cancelled"}
	case BatchRewind:
		return []string{"running", "paused", "completed", "failed", "cancelled"}
	case BatchPurge:
		if b.Force {
			return filter.Statuses()
		}
		return []string{"completed", "failed", "cancelled"}
	default:
		return []string{"pending", "running", "paused"}
	}
}

// Filter is the filter with the statuses of the verb.
func (b *Batch) Filter(now time.Time) (filter.Where, error) {
	where, err := filter.Parse(b.Where, now)
	return append(where, filter.Term{Field: filter.Status, Op: filter.In, Texts: b.Statuses()}), err
}

// again reports whether an instance can change its status and still be one of the batch, without having got its request.
func (b *Batch) again() bool {
	return b.Verb != BatchRetry && b.Verb != BatchRewind && b.Verb != BatchPurge
}

func (b *Batch) broadcast(instances []string) *history.Broadcast {
	out := &history.Broadcast{
		Verb: string(b.Verb), Instances: instances, Text: b.Reason, Name: b.Event, Stop: b.Stop, Start: b.FromStart, To: b.To, Force: b.Force,
	}
	if len(b.Data) > 0 {
		out.Payload = history.Payload{Type: history.TypeJSON, Data: b.Data}
	}
	return out
}

// BatchState is a batch with its progress: the custom status of its instance, the input of its next execution, and its result.
type BatchState struct {
	Batch Batch `json:"batch"`

	Total      uint64    `json:"total"`              // instances that passed the filter before the start
	AtLeast    bool      `json:"at_least,omitempty"` // there may be more than Total
	Sent       uint64    `json:"sent"`               // requests
	Skipped    uint64    `json:"skipped"`            // instances that passed the filter and got none: the batch itself, and what cannot be read
	Began      time.Time `json:"began,omitzero"`     // UTC; later instances are not of the batch
	Partitions int       `json:"partitions"`         // of the namespace
	Place      Place     `json:"place,omitzero"`     // where it reads on
	Due        time.Time `json:"due,omitzero"`       // of the next page, by Rate
	Problem    string    `json:"problem,omitempty"`  // why the latest page could not be read; it is read again
}

// Place is a place in the lists of all partitions.
type Place struct {
	Partition int      `json:"partition"`
	Cursor    string   `json:"cursor,omitempty"` // in the list of the partition; empty: its beginning
	First     int64    `json:"first,omitempty"`  // when the first instance of the list had reached its status, Unix ms; 0: there is none yet
	Firsts    []string `json:"firsts,omitempty"` // the instances that reached theirs at First and were read
	Again     bool     `json:"again,omitempty"`  // the list is read a second time, down to First
}

// Handles of batches.
var (
	Batches     = pawl.NewOrchestration[BatchState, BatchState](message.BatchName)
	BatchStatus = pawl.NewStatus[BatchState]()
)
