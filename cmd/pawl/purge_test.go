package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
)

// naps runs orchestrations that end when they are woken, and a parent of one.
func naps(t *testing.T) (at func(...string) []string) {
	t.Helper()
	nap, wake := pawl.NewOrchestration[pawl.None, pawl.None]("nap"), pawl.NewEvent[pawl.None]("wake")
	watch := pawl.NewOrchestration[string, pawl.None]("watch")
	nats := harness(t, fleets{orchestrations: []pawl.OrchestrationBinding{
		nap.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) { return wake.Receive(ctx) }),
		watch.Do(func(ctx *pawl.Context, child string) (pawl.None, error) {
			if child == "undeployed" {
				return pawl.NewOrchestration[pawl.None, pawl.None](child).Call(ctx, pawl.None{}, pawl.ID("c-1"))
			}
			return nap.Call(ctx, pawl.None{}, pawl.ID(child))
		}),
	}})
	return func(args ...string) []string { return append(args, "--nats", nats) }
}

func TestPurgeReportsEachInstance(t *testing.T) {
	at := naps(t)
	for _, id := range []string{"n-1", "n-2", "n-3"} {
		must(t, at("start", "nap", id, "--wait-started")...)
	}
	must(t, at("send", "n-1", "wake")...)
	must(t, at("get", "n-1", "--wait")...)

	code, out, errs := command(t, at("purge", "n-1", "n-2", "absent")...)
	if code != 1 || out != "n-1: purged\n" || !strings.Contains(errs, "pawl: instance n-2 is running and was not purged") || !strings.Contains(errs, "pawl: there is no instance absent\n") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
	if code, _, errs := command(t, at("get", "n-1")...); code != 1 || !strings.Contains(errs, "there is no instance n-1") {
		t.Errorf("after the purge: code %d, %q", code, errs)
	}

	code, out, errs = command(t, at("purge", "n-2", "absent", "--force", "--reason", "tidy", "--json")...)
	if code != 1 || errs != "" {
		t.Errorf("code %d, %q", code, errs)
	}
	got := map[string]purgedLine{}
	for line := range strings.Lines(out) {
		var l purgedLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got[l.Instance] = l
	}
	if len(got) != 2 || !got["n-2"].Purged || got["absent"] != (purgedLine{Instance: "absent", Error: "there is no instance absent"}) {
		t.Errorf("%+v", got)
	}
	if out := must(t, at("get", "n-3")...); !strings.Contains(out, "running") {
		t.Errorf("the neighbour:\n%s", out)
	}
	must(t, at("start", "nap", "n-2")...) // the id is free
	eventually(t, "a new n-2 runs", func() bool {
		code, out, _ := command(t, at("get", "n-2")...)
		return code == 0 && strings.Contains(out, "running")
	})
}

func TestEndedInstancesArePurgedByStatusAndAge(t *testing.T) {
	at := naps(t)
	for i := range 8 {
		id := fmt.Sprint("n-", i)
		must(t, at("start", "nap", id, "--wait-started")...)
		if i%4 != 0 {
			must(t, at("send", id, "wake")...)
		}
	}
	must(t, at("cancel", "n-0")...)
	eventually(t, "seven have ended", func() bool {
		return strings.Count(must(t, at("list", "--status", "completed")...), "\n") == 7 && strings.Contains(must(t, at("list", "--status", "cancelled")...), "n-0")
	})
	if out := must(t, at("purge", "--status", "completed", "--older-than", "24h")...); out != "0 instances purged\n" {
		t.Errorf("no instance is that old: %q", out)
	}
	if out := must(t, at("purge", "--status", "completed", "--yes")...); out != "6 instances purged\n" {
		t.Errorf("%q", out)
	}
	if out := must(t, at("purge", "--older-than", "1ns")...); out != "1 instance purged\n" {
		t.Errorf("%q", out)
	}
	if out := must(t, at("list")...); strings.Count(out, "\n") != 2 || strings.Contains(out, "cancelled") {
		t.Errorf("running instances remain:\n%s", out)
	}
}

func TestStalledChildIsNamedInTheWaitOfItsParent(t *testing.T) {
	at := naps(t)
	must(t, at("start", "watch", "w-1", "--input", `"undeployed"`)...)
	eventually(t, "the child is stalled", func() bool { return strings.Contains(must(t, at("list", "--stalled")...), "c-1") })
	wantText(t, must(t, at("get", "w-1")...), "waits for child c-1", "STATE", `stalled: unregistered: no orchestration "undeployed"`)
	repeated(t, at("get", "w-1", "--wait", "--timeout", "1s"), func(code int, out, errs string) bool {
		return code == 1 && out == "" && strings.Contains(errs, `: its child c-1: it is stalled: unregistered: no orchestration "undeployed"`) && strings.Count(errs, "\n") == 1
	})
	repeated(t, at("purge", "c-1", "--timeout", "2s"), func(code int, _, errs string) bool {
		return code == 1 && strings.Contains(errs, "c-1 was not purged within 2s, and will be purged later: it is stalled")
	})
	if out := must(t, at("purge", "w-1", "--force")...); out != "w-1: purged\n" {
		t.Errorf("%q", out)
	}
	eventually(t, "the purged parent's child has ended", func() bool { return !strings.Contains(must(t, at("list")...), "w-1") })
}

func TestConfirmationRequiresYes(t *testing.T) {
	for answer, yes := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "n\n": false, "yesterday\n": false, "": false} {
		var prompt strings.Builder
		err := confirm(t.Context(), strings.NewReader(answer), &prompt, "Purge 2 instances?")
		if yes != (err == nil) || !yes && !errors.Is(err, errDeclined) || prompt.String() != "Purge 2 instances? [y/N] " {
			t.Errorf("%q: %v, %q", answer, err, prompt.String())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // as by Ctrl-C
	defer cancel()
	r, w := io.Pipe()
	defer func() { _ = w.Close() }() // ends the reading goroutine
	if err := confirm(ctx, r, io.Discard, "Purge?"); !errors.Is(err, errDeclined) {
		t.Error(err)
	}
}

func TestPurgeOfARefusedInputRemovesIt(t *testing.T) {
	at := naps(t)
	nc, err := nats.Connect(at()[1])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("pawl.default.to.lost.cancel", []byte("\xff\xfe")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the input is refused", func() bool {
		return strings.Contains(must(t, at("list", "--stalled")...), "lost")
	})
	if out := must(t, at("purge", "lost")...); out != "lost: purged\n" {
		t.Errorf("%q", out)
	}
	if out := must(t, at("list", "--stalled")...); strings.Contains(out, "lost") {
		t.Errorf("still listed:\n%s", out)
	}
	if code, _, errs := command(t, at("purge", "lost")...); code != 1 || errs != "pawl: there is no instance lost\n" {
		t.Errorf("code %d, %q", code, errs)
	}
}
