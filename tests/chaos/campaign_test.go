//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// summary is the last line of the output of a campaign.
type summary struct {
	Seed       uint64         `json:"seed"`
	Topology   string         `json:"topology"`
	Previous   string         `json:"previous,omitempty"` // the earlier commit whose programs also ran, or why none ran
	Minutes    float64        `json:"minutes"`
	Faults     int            `json:"faults"`
	Instances  int            `json:"instances"`
	Events     int            `json:"events"`
	Reruns     int            `json:"reruns"` // runs of activities in addition to the first of each call
	Lost       int            `json:"lost"`
	Duplicated int            `json:"duplicated"`
	Violations int            `json:"violations"`
	Stalled    int            `json:"stalled"`
	Settled    float64        `json:"settled_s"` // seconds from the end of the last fault until every instance had ended
	Checked    float64        `json:"checked_s"` // duration of pawl check in seconds
	Ballots    int            `json:"ballots"`   // ballots whose operations are linearizable
	Undecided  int            `json:"undecided"` // ballots for which the check exceeded its time limit
	ByFault    map[string]int `json:"by_fault"`
}

func setting[T any](t *testing.T, name string, byDefault T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	v, err := parse(text)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return v
}

func TestCampaign(t *testing.T) {
	seed := setting(t, "SEED", uint64(time.Now().Unix()), func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	minutes := setting(t, "MINUTES", 3, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	topology := setting(t, "TOPOLOGY", topologies[seed%uint64(len(topologies))], func(s string) (string, error) {
		if !slices.Contains(topologies, s) {
			return "", fmt.Errorf("want one of %v", topologies)
		}
		return s, nil
	})
	t.Logf("seed %d, topology %s, %g minutes", seed, topology, minutes)
	var before program
	if topology == upgrade {
		before = previous(t)
		t.Logf("earlier commit: %s", before.from)
	}
	bin, fleet, cli := build(t, t.TempDir(), topology)
	h := newHarness(t, seed, fleet, cli, before, startServers(t, bin, topology))
	if topology == resized {
		h.progress() // there are no partitions until an orchestrator has created the namespace
	}
	duration := time.Duration(minutes * float64(time.Minute))
	ctx, stop := context.WithTimeout(context.Background(), duration)
	defer stop()
	var keys sync.WaitGroup
	keys.Go(func() { h.rotate(ctx, duration) })
	h.injectFaults(ctx)
	keys.Wait()
	h.judge(context.Background(), &summary{Seed: seed, Topology: topology, Previous: before.from, Minutes: minutes, ByFault: h.faults})
}

// judge waits until all instances have ended, and reports all findings.
func (h *harness) judge(ctx context.Context, sum *summary) {
	h.t.Helper()
	sum.Settled = h.settle().Seconds()
	after, end := context.WithTimeout(ctx, readWithin)
	defer end()
	v, err := h.verdict(after)
	checking := time.Now()
	if err == nil {
		err = h.checkInvariants(after)
	}
	sum.Checked = time.Since(checking).Seconds()
	if err == nil {
		err = h.checkSealed()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	sum.Ballots, sum.Undecided = h.checkBallots()
	v.Violations = append(v.Violations, h.violations...)
	for _, n := range sum.ByFault {
		sum.Faults += n
	}
	sum.Instances, sum.Events, sum.Reruns = v.Instances, v.Events, v.Reruns
	sum.Lost, sum.Duplicated, sum.Violations, sum.Stalled = len(v.Lost), len(v.Duplicated), len(v.Violations), len(v.Stalled)
	for _, text := range slices.Sorted(maps.Keys(v.Errors)) {
		h.t.Logf("clients received %d times: %s", v.Errors[text], text)
	}
	if findings := v.Findings(); len(findings) > 0 {
		h.show(after, findings)
		h.explain(after, v.Stalled)
	}
	h.report(v.Findings(), sum)
}

// report writes the summary and, if there are findings, keeps the evidence.
func (h *harness) report(findings []string, sum *summary) {
	h.t.Helper()
	const shown = 50
	for _, f := range findings[:min(len(findings), shown)] {
		h.t.Error(f)
	}
	if len(findings) > 0 {
		keep := os.Getenv("CHAOS_KEEP")
		if keep != "" {
			_ = os.RemoveAll(keep)
			if err := os.CopyFS(keep, os.DirFS(h.dir)); err != nil {
				h.t.Log(err)
			}
			for _, m := range h.members {
				if err := os.WriteFile(keep+"/"+m.name+".log", []byte(m.Log()), 0o600); err != nil {
					h.t.Log(err)
				}
			}
		}
		faults, err := os.ReadFile(h.events.Name())
		h.t.Logf("faults (%v):\n%s", err, faults)
	}
	line, err := json.Marshal(sum)
	if err != nil {
		h.t.Fatal(err)
	}
	if path := os.Getenv("CHAOS_SUMMARY"); path != "" {
		if err := os.WriteFile(path, append(line, '\n'), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	h.t.Log(string(line))
}
