package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
)

// Batch is a request to every instance that passes a filter. It applies to instances in the statuses on which the verb can have an effect.
// In JSON its fields have the names of the HTTP API.
type Batch struct {
	Verb  BatchVerb `json:"verb"`            // required
	Where string    `json:"where,omitempty"` // filter, as in ListOptions; durations in it are relative to the start of the batch
	All   bool      `json:"all,omitempty"`   // selects every instance; required without Where, and not allowed with it

	Reason    string          `json:"reason,omitempty"`     // recorded in each history; at most 1 KiB
	Rate      int             `json:"rate,omitempty"`       // maximum number of requests per second, at most 100,000; default: no limit
	Event     string          `json:"event,omitempty"`      // BatchEvent: name of the event; required
	Data      json.RawMessage `json:"data,omitempty"`       // BatchEvent: payload in JSON, at most 64 KiB; default: none
	To        uint64          `json:"to,omitempty"`         // BatchRewind: id of the last event that is kept; required
	Stop      bool            `json:"stop,omitempty"`       // BatchPause: also stop running activities
	FromStart bool            `json:"from_start,omitempty"` // BatchRetry: from the input of the instance
	Force     bool            `json:"force,omitempty"`      // BatchPurge: also instances that have not ended
}

// Check returns an error that names all fields that are invalid, or that the verb does not have.
func (b *Batch) Check() error {
	config, err := builtin.Convert[builtin.Batch](b)
	return cmp.Or(err, config.Check())
}

// BatchVerb is the request that a batch makes of each instance.
type BatchVerb string

// The verbs of batches. Each has the effect of the Client method of this name.
const (
	BatchCancel    BatchVerb = "cancel"
	BatchTerminate BatchVerb = "terminate"
	BatchPause     BatchVerb = "pause"
	BatchResume    BatchVerb = "resume"
	BatchRetry     BatchVerb = "retry"
	BatchRewind    BatchVerb = "rewind"
	BatchPurge     BatchVerb = "purge"
	BatchEvent     BatchVerb = "event" // as Send
)

// BatchState is the state of a batch: its configuration and its progress. Times are UTC.
type BatchState struct {
	Batch Batch `json:"batch"`

	Total      uint64     `json:"total"`              // number of instances that matched the filter before the start; 0 also if the count failed
	AtLeast    bool       `json:"at_least,omitempty"` // Total is a lower bound
	Sent       uint64     `json:"sent"`               // number of requests sent
	Skipped    uint64     `json:"skipped"`            // matching instances that receive no request: the batch itself, and those that cannot be read
	Began      time.Time  `json:"began,omitzero"`     // start of the batch; instances started later do not belong to it
	Partitions int        `json:"partitions"`         // number of partitions of the namespace; 0 before the batch has begun
	Place      BatchPlace `json:"place,omitzero"`     // progress by partition
	Due        time.Time  `json:"due,omitzero"`       // when the next page is due, by Rate
	Problem    string     `json:"problem,omitempty"`  // why the latest page could not be read; it is retried
}

// BatchPlace is how far a batch has read the lists of the partitions.
type BatchPlace struct {
	Partition int `json:"partition"` // number of the partition that is being read; all lower ones are done
}

// Handles of batches: the input has the cursors of its orchestration, too, and a state is read without them.
var (
	batchHandle = pawl.NewOrchestration[builtin.BatchState, BatchState](builtin.Batches.Name())
	batchStatus = pawl.NewStatus[BatchState]()
)

// ErrNoBatch is returned if no batch has the id.
var ErrNoBatch = errors.New("client: no such batch")

// CountBatch counts the instances to which a batch would apply now, as Count does. Errors: those of the batch's fields, and those of
// Count.
func (c batches) CountBatch(ctx context.Context, b Batch) (Counts, error) {
	config, err := builtin.Convert[builtin.Batch](b)
	if err = cmp.Or(err, config.Check()); err != nil {
		return Counts{}, err
	}
	where, err := config.Filter(time.Now())
	if err != nil {
		return Counts{}, err
	}
	return c.client.Count(ctx, CountOptions{Where: where.Fixed().String()})
}

// StartBatch starts a batch, which is an instance with the id. It sends its request to each instance that had been started before it, one
// page of them at a time. Cancel ends it between two pages; Pause and Resume apply to it, too. If its orchestrator dies another one
// continues it, as any instance, and no instance receives the request twice. BatchState.Total is counted by CountBatch, and is 0 if that
// fails. The caller needs the permissions of the role operator.
//
// A request that cannot take effect on an instance is logged by its orchestrator and listed by Refused. The result of the batch is its
// last state.
//
// Errors: those of the batch's fields, and those of Start.
func (c batches) StartBatch(ctx context.Context, id string, b Batch, opts ...StartOption) (*Instance[BatchState], error) {
	config, err := builtin.Convert[builtin.Batch](b)
	if err = cmp.Or(err, config.Check()); err != nil {
		return nil, err
	}
	n, _ := c.CountBatch(ctx, b) // informational
	return Start(ctx, c.client, batchHandle, id, builtin.BatchState{Batch: config, Total: n.Count, AtLeast: n.AtLeast}, opts...)
}

// DescribeBatch returns the state and the status of a batch, which may have ended. Errors: ErrNoBatch, and those of CustomStatus.
func (c batches) DescribeBatch(ctx context.Context, id string) (BatchState, Status, error) {
	d, err := c.client.Describe(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return BatchState{}, "", err
	}
	if err != nil || d.Orchestration != builtin.Batches.Name() {
		return BatchState{}, "", fmt.Errorf("%w: %s", ErrNoBatch, id)
	}
	at, err := CustomStatus(ctx, c.client, batchStatus, id)
	if errors.Is(err, ErrNoStatus) { // it has not started yet
		err = nil
	}
	return at.Value, d.Status, err
}

// Batches iterates over the batches, at most limit (0: all), including those that have ended. Order and errors are those of List.
func (c batches) Batches(ctx context.Context, limit int) iter.Seq2[Summary, error] {
	return c.client.List(ctx, ListOptions{Where: fmt.Sprintf("orchestration = %q", builtin.Batches.Name()), Limit: limit})
}

// WatchBatch iterates over the states of a batch until it ends, as WatchStatus does.
func (c batches) WatchBatch(ctx context.Context, id string) iter.Seq2[BatchState, error] {
	return func(yield func(BatchState, error) bool) {
		for at, err := range WatchStatus(ctx, c.client, batchStatus, id) {
			if !yield(at.Value, err) {
				return
			}
		}
	}
}
