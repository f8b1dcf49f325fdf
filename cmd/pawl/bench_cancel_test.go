package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// benchCancel measures as the arguments say, and demands that everybody was told.
func benchCancel(t *testing.T, args ...string) (cost cancelCost, keys map[string]any) {
	t.Helper()
	left := tmpDir(t)
	out := must(t, append([]string{"bench", "cancel", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &cost); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if err := json.Unmarshal([]byte(out), &keys); err != nil {
		t.Fatal(err)
	}
	if cost.Missed != 0 || cost.P50MS <= 0 || cost.P99MS < cost.P50MS || cost.MaxMS < cost.P99MS {
		t.Errorf("%+v", cost)
	}
	nothingIn(t, left)
	return cost, keys
}

func TestTheBenchOfCancellationTellsEverybodyAndLeavesNothingBehind(t *testing.T) {
	cost, keys := benchCancel(t, "--instances", "20")
	for _, key := range []string{"p50_ms", "p99_ms", "max_ms", "cancelled", "missed"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no %s in %v", key, keys)
		}
	}
	b := cost.Burst
	if cost.Cancelled != 20 || !cost.Hints || b == nil || b.Activities != 500 || b.Missed+b.Leases+b.Goroutines+b.Agenda != 0 {
		t.Errorf("%+v, burst %+v", cost, b)
	}
}

func TestTheBenchOfCancellationMeasuresOneCommitThatCancelsMany(t *testing.T) {
	if cost, _ := benchCancel(t, "--instances", "2", "--fanout", "300"); cost.Cancelled != 600 || cost.CommitMS <= 0 || cost.Burst != nil {
		t.Errorf("%+v", cost)
	}
}

// A worker that hears no hints finds out by renewing; one that did would have been told at once.
func TestTheBenchWithoutHintsIsOneOfRenewals(t *testing.T) {
	cost, _ := benchCancel(t, "--instances", "12", "--no-hints")
	const renewal = 10 * time.Second / 3
	if cost.Hints || cost.P50MS < 300 || cost.MaxMS > float64(2*renewal.Milliseconds()) {
		t.Errorf("%+v", cost)
	}
}

// One history has the reasons of all of them.
func TestThousandsThatHearNoHintFindOutWhyTheyAreCancelled(t *testing.T) {
	if cost, _ := benchCancel(t, "--instances", "1", "--no-hints", "--fanout", "5000"); cost.Cancelled != 5000 {
		t.Errorf("%+v", cost)
	}
}

func TestWhatTheBenchOfCancellationCanNotMeasureIsAMisuse(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "hello", "--load"}, {"bench", "all", "--no-hints"}, {"bench", "chain", "--fanout", "3"},
		{"bench", "cancel", "--fanout", "0"}, {"bench", "cancel", "--fanout", "10001"}, {"bench", "cancel", "--nats", "nats://127.0.0.1:1"},
	} {
		if code, out, errs := command(t, args...); code != 2 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}
