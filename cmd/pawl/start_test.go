package main

import (
	"strings"
	"testing"
)

func TestStartAndInputsReportThatTheyHaveNoEffect(t *testing.T) {
	nats := startTours(t)
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	fails := func(want string, args ...string) {
		t.Helper()
		repeated(t, at(args...), func(code int, out, errs string) bool {
			return code == 1 && out == "" && strings.HasPrefix(errs, want) && strings.Count(errs, "\n") == 1
		})
	}
	notes := func(want string, args ...string) {
		t.Helper()
		repeated(t, at(args...), func(code int, out, errs string) bool {
			return code == 0 && out != "" && strings.HasPrefix(errs, want) && strings.Count(errs, "\n") == 1
		})
	}
	must(t, at("start", "rest", "r-1", "--input", `"inn"`)...)
	must(t, at("start", "rest", "r-1", "--input", ` "inn" `)...) // has no effect
	fails("pawl: nothing was started: r-1 exists since ", "start", "rest", "r-1", "--input", `"sea"`)
	fails("pawl: nothing was started: r-1 is an instance of rest since ", "start", "tour", "r-1", "--wait", "--timeout", "10s")
	if code, _, errs := command(t, at("start", "rest", "")...); code != 2 || !strings.Contains(errs, "id") {
		t.Errorf("an empty id: code %d, %q", code, errs)
	}

	stalled := `unregistered: no orchestration "nowhere"`
	notes("pawl: n-1 is started and stalled: "+stalled, "start", "nowhere", "n-1")
	wantText(t, must(t, at("get", "n-1")...), "orchestration nowhere", "status pending", "stalled "+stalled)
	wantText(t, must(t, at("list", "--stalled")...), "n-1 nowhere ", stalled)
	for _, args := range [][]string{{"list"}, {"list", "--status", "pending"}, {"list", "--oldest"}} {
		wantText(t, must(t, at(args...)...), "n-1 nowhere pending ", "stalled: "+stalled)
	}
	wantText(t, must(t, at("list", "--limit", "1")...), "n-1 nowhere pending ")
	wantText(t, must(t, at("list", "--json", "--status", "pending")...), `"instance":"n-1","orchestration":"nowhere","status":"pending"`)
	fails("pawl: nothing was started: n-1 is an instance of nowhere that has not begun", "start", "rest", "n-1")

	wantText(t, must(t, at("start", "rest", "r-2", "--input", `"inn"`, "--wait-started", "--json")...), `{"instance":"r-2","accepted":true,"started":true}`)
	fails("pawl: n-2 has not begun within 200ms", "start", "nowhere", "n-2", "--wait-started", "--timeout", "200ms")
	for _, flags := range [][]string{{"--wait-started", "--wait"}, {"--timeout", "1s"}} {
		if code, _, errs := command(t, at(append([]string{"start", "rest"}, flags...)...)...); code != 2 || !strings.Contains(errs, "wait") {
			t.Errorf("%q: code %d, %q", flags, code, errs)
		}
	}

	notes("pawl: there is no instance x-1: the event is kept", "send", "x-1", "wake")
	notes("pawl: there is no instance x-2", "cancel", "x-2")
	must(t, at("send", "r-1", "wake", "--by", "ops")...)
	must(t, at("get", "r-1", "--wait", "--timeout", "30s")...)
	wantText(t, must(t, at("history", "r-1")...), "TIME (UTC)", " 20", "EventReceived wake by ops")
	fails("pawl: nothing was sent: r-1 has ended: completed at 20", "send", "r-1", "wake")
	fails("pawl: nothing was sent: r-1 has ended", "cancel", "r-1")
	fails(`{"error":"nothing was sent: r-1 has ended`, "cancel", "r-1", "--json")
}
