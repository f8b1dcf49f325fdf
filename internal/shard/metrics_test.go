package shard

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/propagate"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

func measuredTurn(name string) (*core.Decided, *record.Commit) {
	t := &core.Decided{Additions: core.Additions{Fold: &fold.State{Started: &history.Started{Name: name}}}}
	t.Size = 500
	t.Events = []history.Event{
		&history.Started{Name: name, Execution: 1}, &history.TimerFired{Head: history.Head{At: 1000}}, &history.Granted{Scheduled: 9},
		&history.Completed{},
	}
	return t, &record.Commit{NewHead: "h", Record: &record.Record{Name: name, Status: record.Completed}}
}

func TestCommitIsMeasuredWithoutAllocation(t *testing.T) {
	m, err := NewMetrics(prometheus.NewPedanticRegistry(), "shop", 64, []string{"fulfil"})
	if err != nil {
		t.Fatal(err)
	}
	turn, c := measuredTurn("fulfil")
	if n := testing.AllocsPerRun(100, func() { m.committed(turn, c, 3500, exemplar(turn)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFiringsOfACommittedTurnAreMeasured(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(reg, "shop", 64, nil)
	if err != nil {
		t.Fatal(err)
	}
	turn, c := measuredTurn("pawl.schedule")
	turn.Firings = &replay.Firings{Due: []int64{1000, 3000}, Missed: [replay.MissCauses]uint64{replay.MissedByOverlap: 2, replay.MissedByAge: 3}}
	m.committed(turn, c, 3500, exemplar(turn))
	turn.Firings = nil
	m.committed(turn, c, 9500, exemplar(turn))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	missed := make(map[string]float64)
	for _, f := range families {
		switch f.GetName() {
		case "pawl_schedule_lag_seconds":
			if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() != 3 {
				t.Errorf("%v", h)
			}
		case "pawl_schedule_missed_total":
			for _, one := range f.GetMetric() {
				for _, l := range one.GetLabel() {
					if l.GetName() == "reason" {
						missed[l.GetValue()] = one.GetCounter().GetValue()
					}
				}
			}
		}
	}
	if !maps.Equal(missed, map[string]float64{"overlap": 2, "catch_up_window": 3, "catch_up_max": 0, "done": 0}) {
		t.Errorf("%v", missed)
	}
}

// Trap: callers choose the values of a label.
func TestUnregisteredNamesAreOneLabelValue(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(reg, "shop", 64, []string{"fulfil"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fulfil", "x1", "x2"} {
		turn, c := measuredTurn(name)
		m.committed(turn, c, 3500, exemplar(turn))
	}
	if m.orchestration("x3") != m.orchestration(promx.Other) {
		t.Error("an unregistered orchestration has its own metrics")
	}
	for i := range 2 * maxActions {
		m.waited.WithLabelValues(m.actions.Of(string(rune('a' + i)))).Inc()
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "pawl_orchestrator_instances_started_total":
			if len(f.GetMetric()) != 2 || f.GetMetric()[0].GetCounter().GetValue() != 1 || f.GetMetric()[1].GetCounter().GetValue() != 2 {
				t.Errorf("%v", f.GetMetric())
			}
		case "pawl_limit_waited_total":
			if n := len(f.GetMetric()); n != maxActions+1 {
				t.Errorf("%d actions", n)
			}
		}
	}
}

func TestTimesOfSchedulesHaveTheTraceOfTheirInstance(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(reg, "shop", 64, nil)
	if err != nil {
		t.Fatal(err)
	}
	turn, c := measuredTurn("pawl.schedule")
	turn.Fold.Started.Headers = propagate.Traced(history.Headers(""), "s", history.Position{Seq: 1}, func([16]byte, [8]byte) bool { return true })
	turn.Firings = &replay.Firings{Due: []int64{1000}}
	m.committed(turn, c, 3500, exemplar(turn))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		if f.GetName() == "pawl_schedule_lag_seconds" {
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				if b.GetExemplar() != nil {
					found++
				}
			}
		}
	}
	if found != 1 {
		t.Errorf("%d exemplars", found)
	}
}
