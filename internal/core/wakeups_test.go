package core_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/record"
)

// TestWakeupsAreReadWhenTheNextOneIsDue bounds the lag of timers: the next poll is at the next wakeup that the previous poll returned, not a
// fixed time later.
func TestWakeupsAreReadWhenTheNextOneIsDue(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, c := range []struct {
		due     []string
		in, gap time.Duration
	}{
		{in: 40 * time.Millisecond, gap: 40 * time.Millisecond},
		{due: []string{"sleep-1"}, in: 300 * time.Millisecond, gap: 300 * time.Millisecond},
		{in: time.Millisecond, gap: 20 * time.Millisecond}, // wakeups within 20 ms are read together
		{due: make([]string, core.DueBatch), gap: 10 * time.Millisecond},
	} {
		o := core.New(core.Config{}, core.TenureStart{}, now)
		o.Step(now, &core.Message{Kind: core.WakeupsDue})
		o.Step(now, &core.Message{Kind: core.DueRead, Body: record.DueSet{Now: now.UnixMilli(), Instances: c.due, Next: now.Add(c.in).UnixMilli()}})
		if got := o.NextPoll().Sub(now); got != c.gap {
			t.Errorf("%d due, the next one in %v: polled in %v, want %v", len(c.due), c.in, got, c.gap)
		}
	}
}

// A partition without scheduled instances is read half as often, unless a commit has scheduled one since.
func TestWakeupsAreReadLessOftenWhenNothingIsScheduled(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for name, c := range map[string]struct {
		found record.DueSet
		gap   time.Duration
	}{
		"nothing is scheduled":     {record.DueSet{Now: now.UnixMilli()}, 2 * time.Second},
		"an instance is scheduled": {record.DueSet{Now: now.UnixMilli(), Next: now.UnixMilli() + 60_000}, time.Second},
		"a limit is scheduled":     {record.DueSet{Now: now.UnixMilli(), NextLimit: now.UnixMilli() + 60_000}, time.Second},
	} {
		o := core.New(core.Config{}, core.TenureStart{}, now)
		o.Step(now, &core.Message{Kind: core.WakeupsDue})
		o.Step(now, &core.Message{Kind: core.DueRead, Body: c.found})
		if got := o.NextPoll().Sub(now); got != c.gap {
			t.Errorf("%s: polled in %v, want %v", name, got, c.gap)
		}
	}
	o := core.New(core.Config{}, core.TenureStart{}, now)
	o.Step(now, &core.Message{Kind: core.WakeupsDue})
	o.Step(now, &core.Message{Kind: core.WakeupsDue}) // during the read, so the set is read again at once
	o.Step(now, &core.Message{Kind: core.DueRead, Body: record.DueSet{Now: now.UnixMilli()}})
	if got := o.NextPoll().Sub(now); got != 0 {
		t.Errorf("after a wakeup during a read: polled in %v", got)
	}
}
