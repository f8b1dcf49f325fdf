package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheBenchOfGatesLetsEverybodyThroughAndLeavesNothingBehind(t *testing.T) {
	left := tmpDir(t)
	out := must(t, "bench", "gate", "--json", "--instances", "300", "--in-flight", "250")
	var cost gateCost
	if err := json.Unmarshal([]byte(out), &cost); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(out), &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"scenario", "grants_per_s", "chain_ratio", "p50_ms", "p99_ms", "bytes_per_waiter"} {
		if _, ok := keys[key]; !ok {
			t.Errorf("no %s in %v", key, keys)
		}
	}
	if cost.Instances != 300 || cost.GrantsPerS <= 0 || cost.DrainPerS <= 0 || cost.P50MS <= 0 || cost.P99MS < cost.P50MS {
		t.Errorf("%+v", cost)
	}
	if cost.PlainPerS <= 0 || cost.Waiters != 300 || cost.Turns != 300 {
		t.Errorf("%+v", cost)
	}
	if len(cost.ChainRatios) != gateRounds || cost.ChainRatio <= 0 || cost.ChainPerS <= 0 || cost.GatedChainPerS <= 0 {
		t.Errorf("%+v", cost)
	}
	if cost.BytesPerWaiter < 50 || cost.BytesPerWaiter > 300 {
		t.Errorf("a waiter takes %.0f bytes", cost.BytesPerWaiter)
	}
	nothingIn(t, left)
}

func TestABenchOfGatesAtWhichNobodyWouldWaitIsAMisuse(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "gate", "--instances", "150"}, {"bench", "gate", "--in-flight", "100"}, {"bench", "gate", "--nats", "nats://127.0.0.1:1"},
	} {
		if code, out, errs := command(t, args...); code != 2 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: code %d, out %q, err %q", args, code, out, errs)
		}
	}
}
