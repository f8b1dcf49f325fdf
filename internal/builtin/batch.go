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

// Batch is a request to every instance that matches a filter.
type Batch struct {
	Verb  BatchVerb `json:"verb"`
	Where string    `json:"where,omitempty"` // filter; durations in it are relative to the start of the batch
	All   bool      `json:"all,omitempty"`   // required without Where

	Reason    string          `json:"reason,omitempty"`     // at most 1 KiB
	Rate      int             `json:"rate,omitempty"`       // maximum number of requests per second; 0 means no limit
	Event     string          `json:"event,omitempty"`      // event: name of the event
	Data      json.RawMessage `json:"data,omitempty"`       // event: payload; default none
	To        uint64          `json:"to,omitempty"`         // rewind: id of the last event that is kept
	Stop      bool            `json:"stop,omitempty"`       // pause: also stop running activities
	FromStart bool            `json:"from_start,omitempty"` // retry: from the input of the instance
	Force     bool            `json:"force,omitempty"`      // purge: also running instances
}

// BatchVerb is the request that a batch sends to each instance.
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
	maxBatchData = 64 << 10 // maximum size of an event, in bytes
)

// Check returns an error if the batch is invalid.
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

// Statuses returns the statuses of the instances that the verb can affect.
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

// Filter returns the filter, restricted to the statuses of the verb.
func (b *Batch) Filter(now time.Time) (filter.Where, error) {
	where, err := filter.Parse(b.Where, now)
	return append(where, filter.Term{Field: filter.Status, Op: filter.In, Texts: b.Statuses()}), err
}

// again reports whether an instance can change its status and still belong to the batch before it has received its request.
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

// BatchState is a batch with its progress. It is the custom status of its instance, the input of its next execution, and its result.
type BatchState struct {
	Batch Batch `json:"batch"`

	Total      uint64    `json:"total"`              // number of instances that matched the filter before the start
	AtLeast    bool      `json:"at_least,omitempty"` // Total is a lower bound
	Sent       uint64    `json:"sent"`               // number of requests sent
	Skipped    uint64    `json:"skipped"`            // matching instances that receive no request: the batch itself, and those that cannot be read
	Began      time.Time `json:"began,omitzero"`     // start of the batch, UTC; instances started later do not belong to it
	Partitions int       `json:"partitions"`         // number of partitions of the namespace
	Place      Place     `json:"place,omitzero"`     // where the next page begins
	Due        time.Time `json:"due,omitzero"`       // when the next page is due, by Rate
	Problem    string    `json:"problem,omitempty"`  // why the latest page could not be read; it is retried
}

// Place is a position in the lists of all partitions.
type Place struct {
	Partition int      `json:"partition"`
	Cursor    string   `json:"cursor,omitempty"` // position in the list of the partition; empty means its beginning
	First     int64    `json:"first,omitempty"`  // when the first instance of the list reached its status, Unix ms; 0 means none yet
	Firsts    []string `json:"firsts,omitempty"` // instances read so far that reached their status at First
	Again     bool     `json:"again,omitempty"`  // whether the list is being read a second time, down to First
}

// Handles of batches.
var (
	Batches     = pawl.NewOrchestration[BatchState, BatchState](message.BatchName)
	BatchStatus = pawl.NewStatus[BatchState]()
)
