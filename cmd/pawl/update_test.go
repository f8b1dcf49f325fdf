package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
)

func TestUnansweredUpdateReportsItsReasonAndHowToWaitLonger(t *testing.T) {
	var (
		vote = pawl.NewOrchestration[int, int]("vote")
		cast = pawl.NewUpdate[int, int]("cast")
	)
	nats := harness(t, fleets{orchestrations: []pawl.OrchestrationBinding{vote.Do(func(ctx *pawl.Context, sum int) (int, error) {
		for {
			u, err := cast.Next(ctx).Get(ctx)
			if err != nil {
				return sum, err
			}
			sum += u.Input
			if err := u.Answer(ctx, sum); err != nil {
				return sum, err
			}
		}
	})}})
	at := func(args ...string) []string { return append(args, "--nats", nats) }

	// One message contains the start of the instance and its first update.
	for range 2 {
		if got := must(t, at("update", "v-1", "cast", "2", "--start", "vote", "--input", "5", "--attribute", "tenant=acme", "--update-id", "first")...); got != "7\n" {
			t.Errorf("update with start: %q", got)
		}
	}
	wantText(t, must(t, at("list", "--where", "tenant = acme")...), "v-1 vote")

	var errs string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(errs)
		}
	})
	waits := func(want string, args ...string) {
		t.Helper()
		poll.Until(t, time.Minute, want, func() bool {
			var code int
			code, _, errs = command(t, at(append(args, "--timeout", "500ms", "--update-id", "u-1")...)...)
			return code == 1 && strings.Contains(errs, want)
		})
	}
	must(t, at("pause", "v-1", "--reason", "recount")...)
	wantText(t, must(t, at("list", "--status", "paused")...), "v-1 vote")
	waits("v-1 has not answered within 500ms: it is paused by ", "update", "v-1", "cast", "3")
	wantText(t, errs, "recount", `"pawl update v-1 cast --update-id u-1" waits for its answer`)
	must(t, at("resume", "v-1")...)
	if got := must(t, at("update", "v-1", "cast", "--update-id", "u-1")...); got != "10\n" {
		t.Errorf("the open update: %q", got)
	}
	waits("v-2 has not answered within 500ms: it is stalled: not-started: inputs came before a start of this instance", "update", "v-2", "cast", "3")
	if code, _, errs := command(t, at("requeue", "v-2")...); code != 1 || !strings.Contains(errs, "instance v-2 has not been started, so there is nothing to retry: inputs came before a start") {
		t.Errorf("requeue without a start: exit code %d, %s", code, errs)
	}

	for want, args := range map[string][]string{
		"need --start":                           {"v-1", "cast", "--input", "5"},
		"must not be negative":                   {"v-1", "cast", "--deadline=-3s"},
		"bad name \"cast..x\"":                   {"v-1", "cast..x"},
		"bad attribute":                          {"v-1", "cast", "--start", "vote", "--attribute", "status=x"},
		"standard input":                         {"v-1", "cast", "-", "--start", "vote", "--input", "-"},
		"want 1 to 200 bytes":                    {"v-1", "cast", "--update-id", "#1"},
		"update id \"" + strings.Repeat("k", 20): {"v-1", "cast", "--update-id", strings.Repeat("k", 201)},
	} {
		if code, _, errs := command(t, at(append([]string{"update"}, args...)...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: code %d, %q, want %q", args, code, errs, want)
		}
	}
}
