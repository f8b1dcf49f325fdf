package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlrun/pawl/internal/builtin"
)

// Batch is a request to every instance that passes a filter: Verb, Where (or All), Reason, Rate, and the fields that the verb requires.
// It applies to instances in the statuses on which the verb can have an effect.
type Batch = builtin.Batch

// BatchVerb is the request that a batch makes of each instance.
type BatchVerb = builtin.BatchVerb

// BatchState is the state of a batch: its configuration and its progress. Times are UTC.
type BatchState = builtin.BatchState

// The verbs of batches.
const (
	BatchCancel    = builtin.BatchCancel
	BatchTerminate = builtin.BatchTerminate
	BatchPause     = builtin.BatchPause
	BatchResume    = builtin.BatchResume
	BatchRetry     = builtin.BatchRetry
	BatchRewind    = builtin.BatchRewind
	BatchPurge     = builtin.BatchPurge
	BatchEvent     = builtin.BatchEvent
)

// ErrNoBatch is returned if no batch has the id.
var ErrNoBatch = errors.New("client: no such batch")

// CountBatch counts the instances to which a batch would apply now, as Count does. Errors: those of the batch's fields, and those of
// Count.
func (c batches) CountBatch(ctx context.Context, b Batch) (Counts, error) {
	if err := b.Check(); err != nil {
		return Counts{}, err
	}
	where, err := b.Filter(time.Now())
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
	if err := b.Check(); err != nil {
		return nil, err
	}
	n, _ := c.CountBatch(ctx, b) // informational
	return Start(ctx, c.client, builtin.Batches, id, BatchState{Batch: b, Total: n.Count, AtLeast: n.AtLeast}, opts...)
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
	at, err := CustomStatus(ctx, c.client, builtin.BatchStatus, id)
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
		for at, err := range WatchStatus(ctx, c.client, builtin.BatchStatus, id) {
			if !yield(at.Value, err) {
				return
			}
		}
	}
}
