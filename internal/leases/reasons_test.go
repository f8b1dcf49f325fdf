package leases_test

import (
	"context"
	"sync"
	"testing"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// One renewal finds the leases of two instances gone, and the history of one instance cannot be read at first.
func TestCauseLookupsDoNotWaitForOtherInstances(t *testing.T) {
	t.Parallel()
	b := onServer(t)
	const span = longTTL
	read := make(chan struct{})
	release := sync.OnceFunc(func() { close(read) })
	defer release()
	k := b.keeper(span, func(_ context.Context, of leases.Ref, activities []uint64) map[uint64]cancel.Cancelled {
		if of.Instance == "order:42" {
			<-read
		}
		return map[uint64]cancel.Cancelled{activities[0]: {Reason: cancel.LostSelect, Text: of.Instance}}
	})
	slow, other := claimOf(1, "t"), claimOf(1, "t")
	other.Instance = "order:43"
	first, second := b.held(k, slow, span), b.held(k, other, span)
	b.cancel(slow.Ref)
	b.cancel(other.Ref)
	b.want("cause", b.cause(second), "cancelled: lost-select: order:43")
	b.notCancelled(first)
	release()
	b.want("cause", b.cause(first), "cancelled: lost-select: order:42")
}
