package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

func TestAJoinCostsInProportionToItsWidth(t *testing.T) {
	b := newTurnBench()
	thousand, err := b.gather(1_000)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // other tests may have the cores
		wide, err := b.gather(10_000)
		if err != nil {
			t.Fatal(err)
		}
		if wide <= 12*thousand {
			return
		}
		t.Logf("1,000: %s, 10,000: %s", thousand, wide)
	}
	t.Error("a join of 10,000 costs more than twelve times one of 1,000")
}

func TestATurnMakesFewAllocations(t *testing.T) {
	ns, allocs, err := newTurnBench().turn(20 * time.Millisecond)
	if err != nil || allocs > 20 {
		t.Errorf("%.1f allocations in %.0f ns, %v", allocs, ns, err)
	}
}

func TestTheBenchOfTheTurnIsOneObject(t *testing.T) {
	var out bytes.Buffer
	if err := benchTurn(&out, true); err != nil {
		t.Fatal(err)
	}
	var got turnCost
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Scenario != "turn" || len(got.JoinNS) != 3 || got.ReplayPerS == 0 {
		t.Errorf("%s, %v", out.String(), err)
	}
}
