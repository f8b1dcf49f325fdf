package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestErrorIsOneLineWithoutPackageNames(t *testing.T) {
	for want, err := range map[string]error{
		"start x: payload too large": errors.New("client: start x: queue: payload too large"),
		"bad instance id":            errors.New("pawl: bad instance id"),
		"the worker: is there":       errors.New("the worker: is there"),
		"no; luck":                   errors.Join(errors.New("embedded: no"), errors.New("queue: luck")),
		"NATS at x is not reachable: nats: no server": errors.New("queue: NATS at x is not reachable: nats: no server"),
	} {
		if got := userMessage(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := userMessage(errors.New(strings.Repeat("x\n", 10_000))); len(got) > diagnose.MaxText+10 || strings.Contains(got, "\n") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestDurationsAreRoundedToTheirLargestUnits(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0ms": -1, "3ms": 3_100 * time.Microsecond, "1.5s": 1_460 * time.Millisecond, "1m5s": 65_400 * time.Millisecond,
		"26h0m0s": 26 * time.Hour, "3d2h": 74*time.Hour + 59*time.Minute,
	} {
		if got := diagnose.Duration(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestObstacleOfAnInstanceIsReported(t *testing.T) {
	now, before := time.Now(), time.UnixMilli(1)
	outstanding := func(worker string, since time.Time) []client.Activity {
		return []client.Activity{{Name: "charge", Queue: "payments", Worker: worker, Scheduled: since}}
	}
	for i, c := range []struct {
		d    client.Description
		want string
	}{
		{client.Description{}, ""},
		{client.Description{Summary: client.Summary{Stalled: "unregistered: no\nluck"}}, "it is stalled: unregistered: no; luck"},
		{client.Description{Summary: client.Summary{Status: client.Paused}, PausedBy: "ann", PausedFor: "stock"}, "it is paused by ann: stock; it takes no turn until it is resumed"},
		{client.Description{Activities: outstanding("w-1", before)}, ""},
		{client.Description{Activities: outstanding("", now)}, ""},
		{client.Description{Activities: append(outstanding("", before), outstanding("", before)...)}, "no worker has taken its activities from payments; is a worker running that has them?"},
	} {
		if got := diagnose.OwnObstacle(c.d); got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
}

func TestWaitsOfAnInstanceAreNamed(t *testing.T) {
	running := func(change func(*client.Description)) client.Description {
		d := client.Description{Summary: client.Summary{Status: "running"}}
		change(&d)
		return d
	}
	activity, child := client.Activity{Name: "charge"}, client.Child{Instance: "c-1"}
	for i, c := range []struct {
		d    client.Description
		want string
	}{
		{running(func(*client.Description) {}), "an event"},
		{running(func(d *client.Description) { d.Timers = 1 }), "a timer, perhaps an event"},
		{running(func(d *client.Description) { d.Timers, d.AwaitedEvents = 1, []string{"approved", "declined"} }), "events approved, declined, a timer"},
		{running(func(d *client.Description) { d.AwaitedEvents, d.AwaitedUpdates = []string{"paid"}, []string{"offer"} }), "event paid, update offer"},
		{running(func(d *client.Description) { d.Timers, d.Activities = 2, []client.Activity{activity} }), "activity charge (waits for a worker), 2 timers"},
		{running(func(d *client.Description) {
			d.Activities, d.Children = []client.Activity{activity, activity}, []client.Child{child}
		}), "2 activities, child c-1"},
		{running(func(d *client.Description) { d.UnreadInputs = 1 }), ""},
		{running(func(d *client.Description) { d.Stalled = "why" }), ""},
		{client.Description{Summary: client.Summary{Status: "completed"}}, ""},
	} {
		if got := diagnose.WaitsFor(c.d); got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
}

func TestDescriptionShowsTheFieldsThatAreSet(t *testing.T) {
	var b strings.Builder
	d := client.Description{
		Summary: client.Summary{
			Instance: "r-1", Orchestration: "race", Version: "2024-b", Parent: "cup-1", Status: "running", Execution: 12, Started: time.UnixMilli(1000), Events: 3,
			Attributes: `{"cup":"2026","due":{"time":"2026-11-22T08:00:00.000Z"},"laps":5,"late":true,"track":"old, long","turf":"wet"}`,
		},
		OpenUpdates: []client.OpenUpdate{
			{Name: "bet", ID: "b-7", By: "ann", At: time.UnixMilli(1000), Input: history.Payload{Type: history.TypeJSON, Data: []byte(`{"on":"hare"}`)}},
		},
		UnreadInputs: 2, Timers: 1, NextTimer: time.UnixMilli(2000), PendingMessages: 21,
		CustomStatus: &client.StatusAt[history.Payload]{Version: 4, Value: history.Payload{Type: history.TypeJSON, Data: []byte(`{"lap":3}`)}},
		Children:     []client.Child{{Event: 17, Name: "referee", Instance: "ref-1", Scheduled: time.UnixMilli(1000)}, {Event: 18, Name: "referee", Instance: "ref-2"}, {Event: 19, Name: "referee", Instance: "ref-3"}},
		Activities: []client.Activity{
			{Event: 2, Name: "hare", Queue: "fast", Worker: "w-1", Claims: 2, Scheduled: time.UnixMilli(1000)}, {Event: 3, Name: "tortoise", Queue: "slow"},
		},
	}
	children := descendants{
		{Child: d.Children[0], described: true, d: client.Description{Summary: client.Summary{Status: "running"}, Children: []client.Child{{Instance: "whistle-1"}}}},
		{Child: client.Child{Event: 4, Name: "whistle", Instance: "whistle-1"}, level: 1, described: true, d: client.Description{Summary: client.Summary{Status: "running"}, AwaitedEvents: []string{"blow"}}},
		{Child: d.Children[1], described: true, d: client.Description{Summary: client.Summary{Status: "running", Stalled: "unregistered: no\nluck"}}},
		{Child: d.Children[2], missing: true},
	}
	children[0].d.Instance, children[2].d.Instance = "ref-1", "ref-2"
	if err := describe(&b, d, children); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"r-1", "race", "running for", "1970-01-01 00:00:01.000 UTC", "1, the next at 1970-01-01 00:00:02.000 UTC", "on w-1, claim 2", "waits for a worker",
		"2024-b", "cup-1", `attributes cup="2026", due=2026-11-22T08:00:00.000Z, laps=5, late=true, track="old, long", turf=wet`,
		"OPEN UPDATE ID BY FOR INPUT bet b-7 ann", `{"on":"hare"}`, "21 messages not acknowledged yet", `{"lap":3} (version 4)`, "CHILD NAME INSTANCE FOR STATE", "17 referee ref-1",
		"running, waits for child whistle-1", "└ whistle-1", "running, waits for event blow", "stalled: unregistered: no; luck", "not started yet"} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	j, err := json.Marshal(api.InstanceOf(d, children.lookup))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"started":"1970-01-01T00:00:01.000Z"`, `"version":"2024-b"`, `"parent":"cup-1"`, `"pending_messages":21`, `"custom_status":{"version":4,"value":{"lap":3}}`,
		`"children":[{"event":17,"name":"referee","instance":"ref-1","scheduled":"1970-01-01T00:00:01.000Z","status":"running"},` +
			`{"event":18,"name":"referee","instance":"ref-2","status":"running","stalled":"unregistered: no\nluck"},{"event":19,"name":"referee","instance":"ref-3"}]`} {
		if !strings.Contains(string(j), want) {
			t.Errorf("%s is missing in\n%s", want, j)
		}
	}
}

func TestListHasColumnsForVersionsAndFailuresOnlyIfARowHasOne(t *testing.T) {
	rows := []client.Summary{{Instance: "a", Orchestration: "race", Status: "running"}, {Instance: "b", Orchestration: "race", Version: "2", Status: "completed", Ended: time.UnixMilli(1)}}
	failed := client.Summary{Instance: "c", Orchestration: "race", Status: "failed", Ended: time.UnixMilli(1), Code: "no-hare"}
	plain := client.Summary{Instance: "d", Orchestration: "race", Status: "failed", Ended: time.UnixMilli(1), Error: "no hare\n" + strings.Repeat("x", 100)}
	stalled := client.Summary{Instance: "e", Orchestration: "race", Status: "running", Stalled: "blocked: 5 s"}
	for want, rows := range map[string][]client.Summary{
		"INSTANCE  ORCHESTRATION  STATUS   STARTED (UTC)  RAN  EVENTS  PROBLEM\n" + "e         race           running                              stalled: blocked: 5 s\n": {stalled},
		"INSTANCE  ORCHESTRATION  STATUS   STARTED (UTC)  RAN  EVENTS\na         race           running\n":                                                                  rows[:1],
		"INSTANCE  ORCHESTRATION  VERSION  STATUS     STARTED (UTC)  RAN  EVENTS\n" +
			"a         race                    running\n" + "b         race           2        completed                           0\n": rows,
		"INSTANCE  ORCHESTRATION  STATUS  STARTED (UTC)  RAN  EVENTS  PROBLEM\n" + "c         race           failed                           0  no-hare\n":                                   {failed},
		"INSTANCE  ORCHESTRATION  STATUS  STARTED (UTC)  RAN  EVENTS  PROBLEM\n" + "d         race           failed                           0  no hare; " + strings.Repeat("x", 51) + "…\n": {plain},
	} {
		var b strings.Builder
		if err := listTable(rows).Write(&b); err != nil || b.String() != want {
			t.Errorf("got\n%s\nwant\n%s\n%v", b.String(), want, err)
		}
	}
}

func TestHealthFailsWhenAStoreDoes(t *testing.T) {
	h := client.Health{Redis: []client.RedisHealth{{Address: "a:1", Error: "connection refused"}}}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		if err := showHealth(&out, h, asJSON); err == nil || err.Error() != "connection refused" || !strings.Contains(out.String(), "connection refused") {
			t.Errorf("as JSON %v: %v, %s", asJSON, err, out.String())
		}
	}
	if err := showHealth(io.Discard, client.Health{}, true); err != nil {
		t.Error(err)
	}
}
