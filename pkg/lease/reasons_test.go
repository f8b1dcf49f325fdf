package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/lease"
)

// Leases of two instances are found gone by one renewal, and the history of one of them cannot be read for a while.
func TestCauseLookupsDoNotWaitForOtherInstances(t *testing.T) {
	b := onServer(t)
	const span = time.Second
	read := make(chan struct{})
	k := b.keeper(span, func(ctx context.Context, of lease.Ref, activities []uint64) map[uint64]cancel.Cancelled {
		if of.Instance == "order:42" {
			select {
			case <-read:
			case <-ctx.Done():
			}
		}
		return map[uint64]cancel.Cancelled{activities[0]: {Reason: cancel.LostSelect, Text: of.Instance}}
	})
	slow, other := grip(1, "t"), grip(1, "t")
	other.Instance = "order:43"
	first, second := b.held(k, slow, span), b.held(k, other, span)
	b.cancel(slow.Ref)
	b.cancel(other.Ref)
	b.want("cause", b.cause(second), "cancelled: lost-select: order:43")
	b.still(first)
	close(read)
	b.want("cause", b.cause(first), "cancelled: lost-select: order:42")
}
