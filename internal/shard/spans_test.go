package shard

import (
	"testing"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestNoTracerCostsNoAllocation(t *testing.T) {
	var none *spans
	start := history.Started{Name: "o"}
	turn := &core.Decided{Additions: core.Additions{Fold: &fold.State{Started: &start}, Events: []history.Event{&start}}}
	in := &message.Input{Kind: message.KindStart}
	if n := testing.AllocsPerRun(100, func() { none.committed("i", turn); none.received(in) }); n != 0 || in.Headers != "" {
		t.Errorf("%v allocations, headers %q", n, in.Headers)
	}
	some := &spans{batches: make(chan spanBatch, 1)}
	if n := testing.AllocsPerRun(100, func() { some.committed("i", turn) }); n != 0 || len(some.batches) != 0 {
		t.Errorf("an instance that is not sampled costs %v allocations, %d batches", n, len(some.batches))
	}
}
