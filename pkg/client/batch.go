package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlrun/pawl/internal/builtin"
)

// Batch is a request to every instance that passes a filter: Verb, Where (or All), Reason, Rate, and what the verb needs. The instances are
// those in the statuses that the verb can have an effect on.
type Batch = builtin.Batch

// BatchVerb is what a batch requests of each instance.
type BatchVerb = builtin.BatchVerb

// BatchState is a batch with its progress. Times are UTC.
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

// ErrNoBatch is returned if the id is not that of a batch.
var ErrNoBatch = errors.New("client: no such batch")

// CountBatch counts the instances that a batch would concern now, as Count does. Errors: those of the batch, and those of Count.
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

// StartBatch starts a batch as an instance of its own, with an id: it sends its request to each instance that had been started before
// it, and has a page of them in flight at a time. Cancel ends it between two pages, and Pause and Resume hold for it, too. A process
// that dies is replaced as for any instance, and no instance gets the request twice. Total is counted as by CountBatch; it is 0 if that
// fails. The caller needs the permissions of the role operator.
//
// A request that an instance cannot carry out has no effect on it; its orchestrator logs it and lists it (Refused). The Result is the last
// state.
//
// Errors: those of the batch, and those of Start.
func (c batches) StartBatch(ctx context.Context, id string, b Batch, opts ...StartOption) (*Instance[BatchState], error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	n, _ := c.CountBatch(ctx, b) // it is only shown
	return Start(ctx, c.client, builtin.Batches, id, BatchState{Batch: b, Total: n.Count, AtLeast: n.AtLeast}, opts...)
}

// DescribeBatch returns the state of a batch, also of one that has ended. Errors: ErrNoBatch, and those of CustomStatus.
func (c batches) DescribeBatch(ctx context.Context, id string) (BatchState, Status, error) {
	d, err := c.client.Describe(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return BatchState{}, "", err
	}
	if err != nil || d.Orchestration != builtin.Batches.Name() {
		return BatchState{}, "", fmt.Errorf("%w: %s", ErrNoBatch, id)
	}
	at, err := CustomStatus(ctx, c.client, builtin.BatchStatus, id)
	if errors.Is(err, ErrNoStatus) { // it has not begun
		err = nil
	}
	return at.Value, d.Status, err
}

// Batches iterates over the batches, also those that have ended, as List does.
func (c batches) Batches(ctx context.Context, limit int) iter.Seq2[Summary, error] {
	return c.client.List(ctx, ListOptions{Where: fmt.Sprintf("orchestration = %q", builtin.Batches.Name()), Limit: limit})
}

// WatchBatch iterates over the states of a batch as WatchStatus does, until it ends.
func (c batches) WatchBatch(ctx context.Context, id string) iter.Seq2[BatchState, error] {
	return func(yield func(BatchState, error) bool) {
		for at, err := range WatchStatus(ctx, c.client, builtin.BatchStatus, id) {
			if !yield(at.Value, err) {
				return
			}
		}
	}
}
