package builtin

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/internal/schedule"
	"github.com/pawlrun/pawl/pkg/history"
)

// A metric must not count again on replay.
func TestFiringsAreCountedOnceAndNotByAReplay(t *testing.T) {
	begin := time.UnixMilli(replaytest.Epoch).UTC() // 22:13:20
	hour := begin.Truncate(time.Hour)
	input, err := json.Marshal(State{
		Schedule: Schedule{Times: schedule.Times{Cron: []string{"0 * * * *"}}, Start: &Start{Orchestration: "report"}}, Since: hour.Add(-9 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	d := replaytest.New(t, scheduleProgram, replay.Options{})
	want := func(what string, due []time.Time, missed [replay.MissCauses]uint64) {
		t.Helper()
		got := replay.TakeFirings(d.X)
		if got == nil {
			got = &replay.Firings{}
		}
		var all []time.Time
		for _, ms := range got.Due {
			all = append(all, time.UnixMilli(ms).UTC())
		}
		if !slices.Equal(all, due) || got.Missed != missed {
			t.Errorf("%s: %v, %v", what, all, got.Missed)
		}
	}
	d.Start(history.Payload{Type: history.TypeJSON, Data: input})
	want("after an outage", []time.Time{hour}, [replay.MissCauses]uint64{replay.MissedByAge: 8})
	d.Advance(2 * time.Hour)
	d.CompleteChild(d.OnlyChild().ID, history.Payload{Type: history.TypeJSON, Data: []byte("null")})
	want("while an instance runs", nil, [replay.MissCauses]uint64{replay.MissedByOverlap: 2})
	d.Fire()
	want("in time", []time.Time{hour.Add(3 * time.Hour)}, [replay.MissCauses]uint64{})
	d.Deploy(scheduleProgram)
	if f := replay.TakeFirings(d.X); f != nil {
		t.Errorf("a replay has %+v", f)
	}
}

// A time that ends the previous instance names the start of that instance, so that another instance with the same id is not ended. The
// request is recorded in front of the cancellation that withdraws the child, so a crash repeats both or neither.
func TestTerminateOtherNamesTheStartOfTheInstance(t *testing.T) {
	hour := time.UnixMilli(replaytest.Epoch).UTC().Truncate(time.Hour)
	input, err := json.Marshal(State{
		Schedule: Schedule{Times: schedule.Times{Cron: []string{"0 * * * *"}}, Start: &Start{Orchestration: "report"}, Overlap: TerminateOther}, Since: hour.Add(-1),
	})
	if err != nil {
		t.Fatal(err)
	}
	d := replaytest.New(t, scheduleProgram, replay.Options{})
	d.Start(history.Payload{Type: history.TypeJSON, Data: input})
	first := d.OnlyChild()
	var found []string
	for _, e := range d.Fire() {
		switch e := e.(type) {
		case *history.Broadcast:
			if e.Verb != history.VerbTerminate.String() || !slices.Equal(e.Instances, []string{first.Instance}) || e.Of != first.Effect {
				t.Errorf("%+v, and the start was %+v", e, first)
			}
			found = append(found, "terminate")
		case *history.ChildCancelRequested:
			if e.Scheduled != first.ID {
				t.Errorf("%+v", e)
			}
			found = append(found, "withdraw")
		case *history.ChildScheduled:
			found = append(found, "start")
		}
	}
	if !slices.Equal(found, []string{"terminate", "withdraw", "start"}) || d.OnlyChild().Effect == first.Effect {
		t.Errorf("%v", found)
	}
	d.CheckReplay()
}
