package main

import (
	"context"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
)

// A paused action admits no call, its policy stays as it is, and its waiters are admitted when it is resumed.
func TestPausedActionAdmitsNoWaiterUntilItIsResumed(t *testing.T) {
	charge := pawl.NewActivity[pawl.None, pawl.None]("charge", pawl.Concurrency(2))
	shop := pawl.NewOrchestration[pawl.None, pawl.None]("shop")
	nats := harness(t, fleets{
		orchestrations: []pawl.OrchestrationBinding{shop.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) { return charge.Call(ctx, pawl.None{}) })},
		activities:     []pawl.ActivityBinding{charge.Do(func(context.Context, pawl.None) (pawl.None, error) { return pawl.None{}, nil })},
	})
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	if code, _, errs := command(t, at("pause")...); code != 2 || !strings.Contains(errs, "--action") {
		t.Errorf("code %d, %s", code, errs)
	}
	if out := must(t, at("pause", "--action", "charge", "--reason", "the bank is down", "--by", "ada")...); out != "charge: paused\n" {
		t.Errorf("%q", out)
	}
	must(t, at("start", "shop", "s-1")...)
	eventually(t, "its call waits", func() bool {
		_, out, _ := command(t, at("queue", "stats", "charge")...)
		return strings.Contains(out, "paused") && strings.Contains(out, "concurrency 2")
	})
	repeated(t, at("get", "s-1"), func(_ int, out, _ string) bool {
		return strings.Contains(out, "the action is paused by ada since") && strings.Contains(out, `("the bank is down")`)
	})
	if out := must(t, at("policy", "list")...); !strings.Contains(out, "pause:charge  paused by ada since") || strings.Contains(out, "action:charge") {
		t.Errorf("%s", out)
	}
	if out := must(t, at("policy", "get", "pause:charge", "--json")...); !strings.Contains(out, `"paused_by":"ada","paused_for":"the bank is down","paused_at":"2`) {
		t.Errorf("%s", out)
	}
	if out := must(t, at("resume", "--action", "charge")...); out != "charge: resumed\n" {
		t.Errorf("%q", out)
	}
	must(t, at("get", "s-1", "--wait")...)
	if code, _, errs := command(t, at("resume", "--action", "charge")...); code != 1 || errs != "pawl: charge is not paused\n" {
		t.Errorf("code %d, %s", code, errs)
	}
	if _, _, errs := command(t, at("pause", "--action", "chrage")...); !strings.Contains(errs, "no orchestrator or connected worker registers chrage") {
		t.Errorf("%s", errs)
	}
}
