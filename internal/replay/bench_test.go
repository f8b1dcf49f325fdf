package replay_test

import (
	"strconv"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

func chain(x *replay.Code) replay.Ending {
	for {
		if _, err := call(x, "step", "in"); err != nil {
			return replay.Ending{Failure: &history.Failure{Message: err.Error()}}
		}
	}
}

var noLimits = replay.Limits{Events: 1 << 60, WarnEvents: 1 << 60, Outstanding: 1 << 30}

// BenchmarkTurnOfAParkedChain applies one completion to a parked execution, which schedules the next activity.
func BenchmarkTurnOfAParkedChain(b *testing.B) {
	x := replay.New(effectid.Identity{Instance: "bench"}, chain, replay.Options{Limits: noLimits})
	if _, err := x.Apply(&history.Started{Name: "chain"}); err != nil {
		b.Fatal(err)
	}
	x.Take()
	id := uint64(2)
	result := text(`"ok"`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Apply(&history.ActivityCompleted{Scheduled: id, Result: result}); err != nil {
			b.Fatal(err)
		}
		id = x.Take()[1].Meta().ID
	}
	if err := x.Evict(); err != nil {
		b.Fatal(err)
	}
}

func chainHistory(n int) []history.Event {
	events := []history.Event{&history.Started{Name: "chain"}}
	for len(events) < n {
		id := uint64(len(events))
		events = append(events,
			&history.ActivityScheduled{Name: "step", Payload: text("in"), Effect: "effect"},
			&history.ActivityCompleted{Scheduled: id + 1, Result: text(`"ok"`)})
	}
	for i, ev := range events {
		ev.Meta().ID = uint64(i) + 1
	}
	return events[:len(events)-1]
}

// BenchmarkColdReplay replays a chain of 10,000 events, New and Evict included.
func BenchmarkColdReplay(b *testing.B) {
	events := chainHistory(10_000)
	b.ReportAllocs()
	for b.Loop() {
		x := replay.New(effectid.Identity{Instance: "bench"}, chain, replay.Options{})
		if err := x.Replay(events); err != nil {
			b.Fatal(err)
		}
		if err := x.Evict(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(events))/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkStartAndEvict starts an execution that parks once, and evicts it.
func BenchmarkStartAndEvict(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		x := replay.New(effectid.Identity{Instance: "bench"}, chain, replay.Options{})
		if _, err := x.Apply(&history.Started{Name: "chain"}); err != nil {
			b.Fatal(err)
		}
		if err := x.Evict(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanIn applies one of 10,000 completions that one strand waits for, in the worst order: the last one is waited for first.
func BenchmarkFanIn(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		x := replay.New(effectid.Identity{Instance: "bench"}, program(fanIn(n)), replay.Options{Limits: noLimits})
		if _, err := x.Apply(&history.Started{}); err != nil {
			b.Fatal(err)
		}
		for i := n - 1; i >= 0; i-- {
			if _, err := x.Apply(&history.ActivityCompleted{Scheduled: uint64(i) + 2, Result: text(strconv.Itoa(i))}); err != nil {
				b.Fatal(err)
			}
		}
		if len(x.Take()) != 2*n+2 {
			b.Fatal("not gathered")
		}
		if err := x.Evict(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/completion")
}
