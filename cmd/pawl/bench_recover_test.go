package main

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestBenchRecoverMeasuresAHandOverAndLeavesNothing(t *testing.T) {
	left := tmpDir(t)
	out := must(t, "bench", "recover", "--json", "--rounds", "1", "--fault", "hand-over")
	var r recovery
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if r.Fault != "hand-over" || r.Rounds != 1 || r.Instances < 100 || r.Failed != 0 || r.MaxMS <= 0 || r.MaxMS < r.P50MS || r.TargetMS != 100 {
		t.Errorf("%+v", r)
	}
	nothingIn(t, left)
}

func TestRecoverCountsFromTheMomentThatTheFaultIsOver(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	cs := []*canary{
		{began: at(0), ended: at(900)},                                  // over before
		{began: at(500), ended: at(1200), runs: 150 * time.Millisecond}, // under way: 200 ms, 150 of them its own
		{began: at(1100), ended: at(1130), err: errors.New("")},
		{began: at(1100), ended: at(1110)},
	}
	if worst, held := waited(cs, at(1000), false); worst != 50*time.Millisecond || held != 0 {
		t.Errorf("together: %s, %s", worst, held)
	}
	if worst, held := waited(cs, at(1000), true); worst != 30*time.Millisecond || held != 50*time.Millisecond {
		t.Errorf("apart: %s, %s", worst, held)
	}
}

func TestRecoverRefusesAFaultThatItDoesNotHave(t *testing.T) {
	if _, err := faultsNamed([]string{"hand-over", "flood"}); err == nil {
		t.Error("no error")
	}
	if some, err := faultsNamed([]string{"hand-over"}); err != nil || len(some) != 1 {
		t.Errorf("%v, %v", some, err)
	}
}
