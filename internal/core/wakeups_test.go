package core_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/record"
)

// TestWakeupsAreReadWhenTheNextOneIsDue holds the lag of timers: the next poll comes with the next wakeup that the last one has seen, and
// not a fixed time later.
func TestWakeupsAreReadWhenTheNextOneIsDue(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, c := range []struct {
		due     []string
		in, gap time.Duration
	}{
		{in: 40 * time.Millisecond, gap: 40 * time.Millisecond},
		{due: []string{"nap-1"}, in: 300 * time.Millisecond, gap: 300 * time.Millisecond},
		{in: time.Millisecond, gap: 20 * time.Millisecond}, // those of the next moment together
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

// A partition that has nothing scheduled is read half as often, unless a commit has scheduled something since.
func TestWakeupsAreReadLessOftenWhenNothingIsScheduled(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for name, c := range map[string]struct {
		found record.DueSet
		gap   time.Duration
	}{
		"nothing is scheduled": {record.DueSet{Now: now.UnixMilli()}, 2 * time.Second},
		"an instance is":       {record.DueSet{Now: now.UnixMilli(), Next: now.UnixMilli() + 60_000}, time.Second},
		"a limit is":           {record.DueSet{Now: now.UnixMilli(), NextLimit: now.UnixMilli() + 60_000}, time.Second},
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
	o.Step(now, &core.Message{Kind: core.WakeupsDue}) // while that is read: it is read again at once
	o.Step(now, &core.Message{Kind: core.DueRead, Body: record.DueSet{Now: now.UnixMilli()}})
	if got := o.NextPoll().Sub(now); got != 0 {
		t.Errorf("what was brought forward is polled in %v", got)
	}
}
