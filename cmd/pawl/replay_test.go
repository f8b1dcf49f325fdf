package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/examples"
)

func TestReplayChecksTheCodeOfABinary(t *testing.T) {
	nats := harness(t, fleets{orchestrations: examples.Orchestrations(), activities: examples.Activities()})
	must(t, "start", "hello", "h-1", "--input", `"Ada"`, "--wait", "--nats", nats)
	file := filepath.Join(t.TempDir(), "h-1.json")
	if err := os.WriteFile(file, []byte(must(t, "export", "h-1", "--nats", nats)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "replay", file); out != file+": instance h-1 fits, 4 events\n" {
		t.Errorf("the code of pawl: %q", out)
	}
	self := os.Args[0] + " serve-orchestrator" // the children of this test are pawl
	if out := must(t, "replay", file, "--json", "--binary", self+" --examples"); !strings.Contains(out, `"fits":true`) || !strings.Contains(out, "instance h-1 fits, 4 events") {
		t.Errorf("a binary with the code: %q", out)
	}
	code, out, errs := command(t, "replay", file, "--binary", self)
	if code != 1 || errs != "" || !strings.Contains(out, "instance h-1 is of orchestration hello") {
		t.Errorf("a binary without the code: %d, %q, %q", code, out, errs)
	}
	if code, _, errs = command(t, "replay", file, "--binary", self+" --no-such-flag"); code != 1 || !strings.Contains(errs, "no-such-flag") {
		t.Errorf("a binary without --replay: %d, %q", code, errs)
	}
}

func TestPolicyApplySetsTheLimitsOfAFileOfActivities(t *testing.T) {
	nats := harness(t, fleets{orchestrations: examples.Orchestrations()})
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	file := filepath.Join(t.TempDir(), "activities.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`activities: {resize: {exec: resize, limit: {concurrency: 4, key: customer.id}}, crop: {exec: crop}, pay: {http: "https://pay.example", limit: {rate: 5, rate_window_ms: 1000}}}`)
	if out := must(t, at("policy", "apply", file)...); !strings.HasPrefix(out, "action:pay: rate 5 per 1s") || !strings.Contains(out, "action:resize: concurrency 4, key customer.id") {
		t.Errorf("%q", out)
	}
	if out := must(t, at("policy", "list", "--json")...); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"level":"action:resize","policy":{"concurrency":4,"key":"customer.id"}`) {
		t.Errorf("%q", out)
	}
	write(`activities: {resize: {exec: resize, limit: {rate: 4}}}`)
	if code, _, errs := command(t, at("policy", "apply", file)...); code != 2 || !strings.Contains(errs, "resize") {
		t.Errorf("%d, %q", code, errs)
	}
	write(`activities: {resize: {exec: resize}}`)
	if code, _, errs := command(t, at("policy", "apply", file)...); code != 1 || !strings.Contains(errs, "has a limit") {
		t.Errorf("%d, %q", code, errs)
	}
}
