package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

// bought is the input of a purchase.
type bought struct {
	Shop string `json:"shop"`
}

// shops runs purchases, each of which charges a card. The test determines when an activity ends.
func shops(t *testing.T, limits ...pawl.ActivityOption) (at func(...string) []string, running <-chan string, finish chan<- struct{}) {
	t.Helper()
	buy := pawl.NewOrchestration[bought, pawl.None]("buy")
	charge := pawl.NewActivity[bought, pawl.None]("charge-card", limits...)
	began, end := make(chan string, 100), make(chan struct{}, 100)
	nats := harness(t, fleets{
		orchestrations: []pawl.OrchestrationBinding{buy.Do(func(ctx *pawl.Context, b bought) (pawl.None, error) { return charge.Call(ctx, b) })},
		activities: []pawl.ActivityBinding{charge.Do(func(ctx context.Context, b bought) (pawl.None, error) {
			began <- b.Shop
			select {
			case <-end:
			case <-ctx.Done():
			}
			return pawl.None{}, nil
		})},
		grace: time.Second,
	})
	return func(args ...string) []string { return append(args, "--nats", nats) }, began, end
}

func begin(t *testing.T, running <-chan string) {
	t.Helper()
	select {
	case <-running:
	case <-time.After(time.Minute):
		t.Fatal("no activity began")
	}
}

// stats reads the output of pawl queue stats --json, one limit per line.
func stats(t *testing.T, out string) (all []api.QueueStats) {
	t.Helper()
	for line := range strings.Lines(out) {
		var q api.QueueStats
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, q)
	}
	return all
}

func TestRunTimePolicyIsSetShownAppliedAndDeleted(t *testing.T) {
	at, running, finish := shops(t)
	for _, args := range [][]string{{"queue", "stats", "charge-card"}, {"queue", "stats", "charge-card", "--key", "k"}, {"queue", "list", "charge-card"}, {"queue", "clear", "charge-card"}} {
		if code, out, errs := command(t, at(args...)...); code != 1 || out != "" || !strings.HasPrefix(errs, "pawl: charge-card has no limit in use") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q of an action without a limit: code %d, %q, %q", args, code, out, errs)
		}
	}
	if code, _, errs := command(t, at("policy", "get", "charge-card")...); code != 1 || !strings.Contains(errs, "no policy is set for action:charge-card") {
		t.Errorf("get of a missing policy: code %d, %q", code, errs)
	}

	if _, _, errs := command(t, at("policy", "set", "charge-crad", "--concurrency", "1")...); errs != "pawl: warning: no orchestrator or connected worker registers charge-crad\n" {
		t.Errorf("unknown action: %q", errs)
	}
	must(t, at("policy", "delete", "charge-crad")...)
	for _, known := range []string{"buy", "group:any"} {
		if _, _, errs := command(t, at("policy", "set", known, "--unlimited")...); errs != "" {
			t.Errorf("%s: %q", known, errs)
		}
		must(t, at("policy", "delete", known)...)
	}
	repeated(t, at("policy", "set", "charge-card", "--unlimited"), func(_ int, _, errs string) bool { return errs == "" }) // its worker is connected

	const text = "concurrency 2, rate 100 per 1s, quota 10000 per 24h, max waiters 3, max wait 1h30m"
	if out := must(t, at("policy", "set", "charge-card", "--concurrency", "2", "--rate", "100/1s", "--quota", "10000/24h", "--queue-limit", "3", "--queue-timeout", "90m")...); out != "action:charge-card: "+text+"\n" {
		t.Errorf("set: %q", out)
	}
	must(t, at("policy", "set", "group:payments", "--concurrency", "7", "--reject", "--json")...)
	wantText(t, must(t, at("policy", "set", "global", "--unlimited")...), "global: not limited (overrides the code and less specific levels)")
	wantText(t, must(t, at("policy", "list")...), "LEVEL POLICY", "action:charge-card "+text, "global not limited", "group:payments concurrency 7, others are rejected")
	wantText(t, must(t, at("policy", "list", "--json")...), `{"level":"action:charge-card","policy":{"concurrency":2,"rate":100,"rate_window_ms":1000,"quota":10000,"quota_window_ms":86400000,"queue_limit":3,"queue_timeout_ms":5400000}}`,
		`{"level":"global","policy":{}}`, `{"level":"group:payments","policy":{"concurrency":7,"reject":true}}`)
	wantText(t, must(t, at("policy", "get", "charge-card")...), "level action:charge-card", "concurrency 2", "rate 100 per 1s", "quota 10000 per 24h", "at the limit max waiters 3, max wait 1h30m")
	wantText(t, must(t, at("policy", "get", "global")...), "level global", "limits not limited")
	must(t, at("policy", "delete", "global")...)
	wantText(t, must(t, at("policy", "delete", "group:payments", "--json")...), `{"deleted":true,"level":"group:payments"}`)
	if code, _, errs := command(t, at("policy", "delete", "group:payments")...); code != 1 || errs != "pawl: no policy was set for group:payments\n" {
		t.Errorf("deleted twice: code %d, %q", code, errs)
	}

	for i := range 6 {
		must(t, at("start", "buy", fmt.Sprint("b-", i), "--input", `{"shop":"s"}`)...)
		if i < 2 {
			begin(t, running)
		} else if i < 5 {
			eventually(t, "it waits", func() bool {
				return strings.Contains(must(t, at("get", fmt.Sprint("b-", i))...), "charge-card: position")
			})
		}
	}
	wantText(t, must(t, at("get", "b-3")...), "status running", "waits for activity charge-card (waits at its limit)", "limit charge-card: position 2 of 3; 2 of 2 slots are in use, since ",
		"ACTIVITY NAME QUEUE STATE", "waits at its limit, position 2 of 3")
	wantText(t, must(t, at("get", "b-4", "--json")...), `"limit_waits":[{"event":2,"action":"charge-card","position":3,"queue_length":3,"active_count":2,"policy":{"concurrency":2,`, `"since":"20`)
	if out := must(t, at("get", "b-0")...); strings.Contains(out, "position") {
		t.Errorf("an admitted instance:\n%s", out)
	}
	eventually(t, "the sixth is rejected", func() bool { return strings.Contains(must(t, at("get", "b-5")...), "failed") })
	wantText(t, must(t, at("history", "b-5")...), "ActivityScheduled charge-card", "ActivityFailed of 2", "queue limit")

	wantText(t, must(t, at("queue", "stats")...), "ACTION WAITING OLDEST ACTIVE TOTAL COMPLETED REJECTED TIMED OUT WITHDRAWN CLEARED STATE POLICY", "charge-card 3 ", " 2/2 5 0 ", "full "+text)
	q := stats(t, must(t, at("queue", "stats", "charge-card", "--json")...))
	if len(q) != 1 || q[0].QueueLength != 3 || q[0].ActiveCount != 2 || q[0].MaxConcurrent != 2 || q[0].TotalEnqueued != 5 || q[0].Rejected == 0 || q[0].OldestEnqueuedAt == nil || q[0].Keys != 0 {
		t.Errorf("%+v", q)
	}
	wantText(t, must(t, at("queue", "list", "charge-card")...), "POSITION INSTANCE CALL SINCE (UTC) FOR", "1 b-2 activity 2 20", "2 b-3 ", "3 b-4 ")
	wantText(t, must(t, at("queue", "list", "charge-card", "--json", "--limit", "2")...), `{"position":1,"instance":"b-2","execution":1,"event":2,"since":"20`, `"position":2`)
	if out := must(t, at("queue", "list", "charge-card", "--holders")...); !strings.Contains(out, "b-0") || !strings.Contains(out, "b-1") || strings.Contains(out, "b-2") {
		t.Errorf("the holders:\n%s", out)
	}
	repeated(t, at("get", "b-4", "--wait", "--timeout", "2100ms"), func(code int, out, errs string) bool {
		return code == 1 && out == "" && strings.Contains(errs, "it waits at the limit of charge-card")
	})

	finish <- struct{}{}
	begin(t, running)
	wantText(t, must(t, at("queue", "list", "charge-card")...), "1 b-3", "2 b-4")
	wantText(t, must(t, at("history", "b-2")...), "ActivityScheduled charge-card (waits at limit charge-card)", "Granted of 2")
	if out := must(t, at("queue", "clear", "charge-card", "--yes", "--json")...); out != `{"action":"charge-card","cleared":2,"key":""}`+"\n" {
		t.Errorf("clear: %s", out)
	}
	for _, id := range []string{"b-3", "b-4"} {
		if code, _, errs := command(t, at("get", id, "--wait", "--timeout", "30s")...); code != 1 || !strings.Contains(errs, "cleared") {
			t.Errorf("%s: code %d, %q", id, code, errs)
		}
	}
	if out := must(t, at("queue", "clear", "charge-card")...); out != "charge-card: 0 rejected\n" {
		t.Errorf("clear without waiters: %q", out)
	}
	if out := must(t, at("policy", "delete", "charge-card")...); !strings.Contains(out, "deleted; the code or a less specific level applies again") {
		t.Errorf("delete: %q", out)
	}
	finish <- struct{}{}
	finish <- struct{}{}
	eventually(t, "the limit is empty", func() bool {
		q := stats(t, must(t, at("queue", "stats", "charge-card", "--json")...))
		return len(q) == 1 && q[0].ActiveCount == 0 && q[0].TotalCompleted == 3 && q[0].Cleared == 2
	})
}

func TestEveryKeyHasARowOrderedByWaiters(t *testing.T) {
	at, running, _ := shops(t, pawl.Concurrency(1), pawl.KeyBy("shop"))
	for i, shop := range []string{"acme", "acme", "a shop/with ~ odd {signs}", "acme", "other"} {
		id := fmt.Sprint("b-", i)
		must(t, at("start", "buy", id, "--input", fmt.Sprintf(`{"shop":%q}`, shop))...)
		if i == 0 || i == 2 || i == 4 {
			begin(t, running)
		} else {
			eventually(t, "it waits", func() bool { return strings.Contains(must(t, at("get", id)...), "charge-card (key acme): position ") })
		}
	}
	out := must(t, at("queue", "stats", "charge-card")...)
	wantText(t, out, "ACTION KEY WAITING", "charge-card acme 2 ", "1/1 3 0", "full concurrency 1, key shop, max waiters 10000, max wait 1h")
	if n := strings.Count(out, "\n"); n != 4 {
		t.Errorf("%d lines:\n%s", n, out)
	}
	q := stats(t, must(t, at("queue", "stats", "--json", "--limit", "1")...))
	if len(q) != 1 || q[0].Key != "acme" || q[0].QueueLength != 2 {
		t.Errorf("%+v", q)
	}
	for _, key := range []string{"a shop/with ~ odd {signs}", oddKey(t, stats(t, must(t, at("queue", "stats", "--json")...)))} {
		q := stats(t, must(t, at("queue", "stats", "charge-card", "--key", key, "--json")...))
		if len(q) != 1 || q[0].ActiveCount != 1 || q[0].TotalEnqueued != 1 {
			t.Errorf("%s: %+v", key, q)
		}
	}
	for _, args := range [][]string{{"queue", "list", "charge-card"}, {"queue", "clear", "charge-card"}} {
		if code, out, errs := command(t, at(args...)...); code != 1 || out != "" || !strings.Contains(errs, "charge-card has a limit for each key: choose one") {
			t.Errorf("%q: code %d, %q, %q", args, code, out, errs)
		}
	}
	wantText(t, must(t, at("queue", "list", "charge-card", "--key", "acme")...), "1 b-1", "2 b-3")
	if code, _, errs := command(t, at("queue", "stats", "charge-card", "--key", "absent")...); code != 1 || !strings.Contains(errs, `no limit in use for key "absent"`) {
		t.Errorf("code %d, %q", code, errs)
	}
	if out := must(t, at("queue", "clear", "charge-card", "--key", "acme")...); out != "charge-card (key acme): 2 rejected\n" {
		t.Errorf("%q", out)
	}
}

func TestLimitOfInputsWithoutAKeyDoesNotHideWaitersOfKeys(t *testing.T) {
	at, running, finish := shops(t, pawl.Concurrency(1), pawl.KeyBy("shop"))
	must(t, at("start", "buy", "keyless", "--input", `{"shop":""}`)...)
	begin(t, running)
	finish <- struct{}{}
	must(t, at("start", "buy", "b-0", "--input", `{"shop":"acme"}`)...)
	begin(t, running)
	must(t, at("start", "buy", "b-1", "--input", `{"shop":"acme"}`)...)
	eventually(t, "it waits", func() bool {
		return strings.Contains(must(t, at("get", "b-1")...), "charge-card (key acme): position 1")
	})
	wantText(t, must(t, at("queue", "stats", "charge-card")...), "charge-card acme 1 ")
	for _, args := range [][]string{{"queue", "list", "charge-card"}, {"queue", "clear", "charge-card"}} {
		if code, out, errs := command(t, at(args...)...); code != 1 || out != "" || !strings.Contains(errs, "charge-card has a limit for each key: choose one, such as --key acme") {
			t.Errorf("%q: code %d, %q, %q", args, code, out, errs)
		}
	}
}

// oddKey returns a key that its limit stores as a hash.
func oddKey(t *testing.T, all []api.QueueStats) string {
	t.Helper()
	for _, q := range all {
		if strings.Contains(q.Key, "~") {
			return q.Key
		}
	}
	t.Fatalf("no such key: %+v", all)
	return ""
}

func TestInstanceThatWaitsForItsStartIsPending(t *testing.T) {
	nap, wake := pawl.NewOrchestration[pawl.None, pawl.None]("nap", pawl.Concurrency(1)), pawl.NewEvent[pawl.None]("wake")
	nats := harness(t, fleets{orchestrations: []pawl.OrchestrationBinding{nap.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) { return wake.Receive(ctx) })}})
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	must(t, at("start", "nap", "n-1")...)
	eventually(t, "the first runs", func() bool { return strings.Contains(must(t, at("list")...), "running") })
	for i := 2; i < 5; i++ {
		must(t, at("start", "nap", fmt.Sprint("n-", i))...)
		eventually(t, "it waits", func() bool {
			code, out, _ := command(t, at("get", fmt.Sprint("n-", i))...)
			return code == 0 && strings.Contains(out, "nap: position ")
		})
	}
	wantText(t, must(t, at("get", "n-3")...), "orchestration nap", "status pending", "limit nap: position 2 of 3; 1 of 1 slots are in use, since ")
	if out := must(t, at("list", "--status", "pending")...); strings.Count(out, "pending") != 3 || strings.Contains(out, "n-1") {
		t.Errorf("pending:\n%s", out)
	}
	if out := must(t, at("list")...); strings.Count(out, "n-") != 4 {
		t.Errorf("all:\n%s", out)
	}
	wantText(t, must(t, at("queue", "list", "nap")...), "1 n-2 start", "2 n-3 start", "3 n-4 start")
	repeated(t, at("get", "n-3", "--wait", "--timeout", "1s"), func(code int, out, errs string) bool {
		return code == 1 && out == "" && strings.Contains(errs, "it waits at the limit of nap")
	})
	if code, _, errs := command(t, at("purge", "n-4")...); code != 1 || !strings.Contains(errs, "n-4 is running and was not purged") {
		t.Errorf("purge: code %d, %q", code, errs)
	}
	must(t, at("cancel", "n-2")...)
	eventually(t, "it has left the queue", func() bool { return strings.Contains(must(t, at("get", "n-3")...), "nap: position 1 of 2") })
	must(t, at("send", "n-1", "wake")...)
	eventually(t, "the next runs", func() bool { return strings.Contains(must(t, at("get", "n-3")...), "running") })
	must(t, at("queue", "clear", "nap")...)
	if code, _, errs := command(t, at("get", "n-4", "--wait", "--timeout", "30s")...); code != 1 || !strings.Contains(errs, "cleared") {
		t.Errorf("n-4: code %d, %q", code, errs)
	}
}

func TestParentAndChildThatNeedTheSameSlotAreReportedAsDeadlock(t *testing.T) {
	nest := pawl.NewOrchestration[int, pawl.None]("nest", pawl.Concurrency(1))
	nats := harness(t, fleets{orchestrations: []pawl.OrchestrationBinding{nest.Do(func(ctx *pawl.Context, deep int) (pawl.None, error) {
		if deep == 0 {
			return pawl.None{}, nil
		}
		return nest.Call(ctx, deep-1, pawl.ID(fmt.Sprint("n-", deep-1)))
	})}})
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	must(t, at("start", "nest", "n-1", "--input", "1")...)
	eventually(t, "the deadlock is found", func() bool {
		code, out, _ := command(t, at("get", "n-0")...)
		return code == 0 && strings.Contains(out, "DEADLOCK")
	})
	wantText(t, must(t, at("get", "n-0")...), "status pending", "limit nest: position 1 of 1; DEADLOCK: every holder waits for a waiter of this limit, since ")
	wantText(t, must(t, at("get", "n-1")...), "waits for child n-0", "pending, nest: position 1 of 1; DEADLOCK")
	wantText(t, must(t, at("queue", "stats")...), "nest 1 ", " DEADLOCK ")
	repeated(t, at("get", "n-1", "--wait", "--timeout", "1s"), func(code int, _, errs string) bool {
		return code == 1 && strings.Contains(errs, "its child n-0: it waits at the limit of nest, which is DEADLOCKED")
	})
	must(t, at("queue", "clear", "nest")...)
	if code, _, errs := command(t, at("get", "n-1", "--wait", "--timeout", "30s")...); code != 1 || !strings.Contains(errs, "cleared") {
		t.Errorf("code %d, %q", code, errs)
	}
}

func TestCheckReportsALimitWithAWrongCount(t *testing.T) {
	nap, wake := pawl.NewOrchestration[pawl.None, pawl.None]("nap", pawl.Concurrency(1)), pawl.NewEvent[pawl.None]("wake")
	nats, at := harnessAt(t, fleets{orchestrations: []pawl.OrchestrationBinding{nap.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) { return wake.Receive(ctx) })}})
	must(t, "start", "nap", "n-1", "--nats", nats)
	eventually(t, "it runs", func() bool { return strings.Contains(must(t, "list", "--nats", nats), "running") })
	if out := must(t, "check", "--redis", at); !strings.Contains(out, "1 limit: 0 findings") {
		t.Errorf("%s", out)
	}
	rdb, err := settings.Redis{RedisURL: settings.URL(at)}.OpenRedis(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	if err := rdb.HIncrBy(t.Context(), redisx.NewSpace(defaultNamespace).Limit("nap").State(), "e", 1).Err(); err != nil {
		t.Fatal(err)
	}
	code, out, _ := command(t, "check", "--redis", at)
	if wantText(t, out, "LIMIT FINDING", "nap 2 ", "1 limit: 1 finding"); code != 1 {
		t.Errorf("code %d\n%s", code, out)
	}
	code, out, _ = command(t, "check", "--redis", at, "--json")
	if wantText(t, out, `"findings":[],"limits":1,"limit_findings":[{"limit":"nap","rule":"2 `); code != 1 {
		t.Errorf("code %d\n%s", code, out)
	}
}

func TestReasonOfAWaitIsOneLine(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	g := client.LimitWait{Action: "charge-card", Key: "acme", Position: 17, QueueLength: 230, Active: 5, Policy: client.Policy{Concurrency: 5, Rate: 100, RateWindow: time.Second}, Since: now.Add(-12 * time.Second)}
	for want, change := range map[string]func(g *client.LimitWait){
		"charge-card (key acme): position 17 of 230; 5 of 5 slots are in use, since 12s":                     func(*client.LimitWait) {},
		"charge-card: position 17 of 230; 6 of 5 slots are in use, since 12s":                                func(g *client.LimitWait) { g.Key, g.Active = "", 6 },
		"charge-card (key acme): position 17 of 230; next to be admitted, since 12s":                         func(g *client.LimitWait) { g.Active = 4 },
		"charge-card (key acme): position 17 of 230; limited to 100 per 1s, next at 12:00:01 UTC, since 12s": func(g *client.LimitWait) { g.LimitedUntil = now.Add(time.Second) },
		"charge-card (key acme): position 17 of 230; limited to 100 per 1s and 9 per 24h, next at 12:00:01 UTC, since 12s": func(g *client.LimitWait) {
			g.LimitedUntil, g.Policy.Quota, g.Policy.QuotaWindow = now.Add(time.Second), 9, 24*time.Hour
		},
		"charge-card (key acme): position 17 of 230; DEADLOCK: every holder waits for a waiter of this limit, since 12s": func(g *client.LimitWait) { g.Deadlocked = true },
		"charge-card (key acme): not known to its limit at present; the request is repeated":                             func(g *client.LimitWait) { g.Position = 0 },
		"charge-card (key acme): being admitted":                                                                         func(g *client.LimitWait) { g.Position, g.Admitted = 0, true },
		"charge-card (key acme): position 17 of 230; next to be admitted":                                                func(g *client.LimitWait) { g.Policy, g.Since = client.Policy{}, time.Time{} },
	} {
		x := g
		change(&x)
		if got := diagnose.LimitWait(x, now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestFirstOfManyWaitersAreShown(t *testing.T) {
	d := client.Description{Summary: client.Summary{Instance: "i", Status: "running"}}
	for i := range 8 {
		d.LimitWaits = append(d.LimitWaits, client.LimitWait{Event: uint64(i + 2), Action: "charge", Key: fmt.Sprint("k", i), Position: 1, QueueLength: 1})
		d.Activities = append(d.Activities, client.Activity{Event: uint64(i + 2), Name: "charge", Queue: "charge", Scheduled: time.UnixMilli(1)})
	}
	var b strings.Builder
	if err := describe(&b, d, nil); err != nil {
		t.Fatal(err)
	}
	wantText(t, b.String(), "waits for 8 activities", "limit charge (key k0): position 1 of 1", "(key k4)", "limit and 3 more", "2 charge charge waits at its limit, position 1 of 1")
	if h := diagnose.OwnObstacle(d); h != "it waits at 8 limits" {
		t.Errorf("%q", h)
	}
	d.LimitWaits = d.LimitWaits[:2]
	d.Activities = d.Activities[:2]
	if h := diagnose.OwnObstacle(d); h != "it waits at the limits of charge (key k0), charge (key k1)" {
		t.Errorf("%q", h)
	}
	d.LimitWaits[1].Deadlocked = true
	if h := diagnose.OwnObstacle(d); !strings.Contains(h, "the limit of charge (key k1), which is DEADLOCKED") {
		t.Errorf("%q", h)
	}
	d.Activities = append(d.Activities, client.Activity{Event: 9, Name: "other", Queue: "other", Scheduled: time.UnixMilli(1)})
	if h := diagnose.OwnObstacle(d); !strings.Contains(h, "no worker has taken its activities from other;") {
		t.Errorf("want the obstacle that an operator can remove: %q", h)
	}
	d.Activities[2].Worker = "w"
	if h := diagnose.OwnObstacle(d); h != "" {
		t.Errorf("want no obstacle while a worker runs its activity: %q", h)
	}
}

func TestStateColumnOfALimitExplainsWhyWaitersWait(t *testing.T) {
	now, three := time.Now(), client.Policy{Concurrency: 3}
	for want, g := range map[string]client.QueueInfo{
		"open":     {Active: 2, Policy: three, LimitedUntil: now.Add(-time.Millisecond)},
		"full":     {Active: 3, Policy: three},
		"DEADLOCK": {Active: 3, Policy: three, Deadlocked: true, LimitedUntil: now.Add(5 * time.Second)},
		"limited until " + now.Add(5*time.Second).UTC().Format("15:04:05") + " UTC":           {LimitedUntil: now.Add(5 * time.Second)},
		"limited until " + now.Add(24*time.Hour).UTC().Format("2006-01-02 15:04:05") + " UTC": {LimitedUntil: now.Add(24 * time.Hour)},
	} {
		if got := limitState(g, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	all := []client.QueueInfo{{Action: "a", Waiting: 1}, {Action: "b", Waiting: 1, Active: 1}, {Action: "c", Deadlocked: true}, {Action: "d", Waiting: 9}, {Action: "0", Waiting: 1}}
	got := ""
	for len(all) > 0 {
		first := 0
		for i := range all {
			if busyFirst(all[i], all[first]) < 0 {
				first = i
			}
		}
		got += all[first].Action
		all = append(all[:first:first], all[first+1:]...)
	}
	if got != "cdb0a" {
		t.Errorf("the order is %s", got)
	}
	if q := (&queueClearCmd{Action: "charge", Key: "acme"}).question(client.QueueInfo{Waiting: 7}); q != "Reject all waiters of charge (key acme) (7 at present)? Activities fail, instances are cancelled." {
		t.Errorf("%q", q)
	}
}

func TestFooterReportsHoldersBeyondOneReply(t *testing.T) {
	for _, k := range []struct {
		holders, more bool
		rows          int
		want          string
	}{
		{false, false, 100, ""},
		{false, true, 100, "The first 100 are shown; --limit 0 shows all.\n"},
		{true, false, 100, ""},
		{true, true, 100, "100 are shown; --limit 0 shows up to 500.\n"},
		{true, false, 500, "500 are shown, as many as fit into one reply; \"pawl queue stats\" shows how many there are.\n"},
	} {
		if got := (&queueListCmd{Holders: k.holders}).footer(k.rows, k.more); got != k.want {
			t.Errorf("%+v: %q", k, got)
		}
	}
}

func TestRatesAndLevelsAreParsedFromFlags(t *testing.T) {
	for text, want := range map[string]per{"100/1s": {100, time.Second}, "5/m": {5, time.Minute}, "1/250ms": {1, 250 * time.Millisecond}, "5/1.5ms": {5, 2 * time.Millisecond}, "10000/24h": {10000, 24 * time.Hour}} {
		var p per
		if err := p.UnmarshalText([]byte(text)); err != nil || p != want {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "100", "100/", "/1s", "0/1s", "-1/1s", "1/0s", "1/-1s", "1/1us", "x/1s", "1/x", "1/1s/2"} {
		if err := new(per).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for text, want := range map[string]level{"charge-card": "action:charge-card", "action:global": "action:global", "global": "global", "group:a.b": "group:a.b"} {
		var l level
		if err := l.UnmarshalText([]byte(text)); err != nil || l != want {
			t.Errorf("%s: %s, %v", text, l, err)
		}
	}
	set := policySetCmd{Rate: per{100, time.Second}, QueueTimeout: forever}
	if p := set.policy(); !reflect.DeepEqual(p, client.Policy{Rate: 100, RateWindow: time.Second, QueueTimeout: -1}) || diagnose.Policy(p) != "rate 100 per 1s, max waiters 10000, max wait forever" {
		t.Errorf("%+v: %s", p, diagnose.Policy(p))
	}
	for want, d := range map[string]time.Duration{"24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "1m": time.Minute, "1m30s": 90 * time.Second, "10s": 10 * time.Second, "20m": 20 * time.Minute, "250ms": 250 * time.Millisecond} {
		if got := diagnose.Span(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestInvalidLimitsExitWithCodeTwo(t *testing.T) {
	for _, args := range [][]string{
		{"policy"}, {"policy", "set"}, {"policy", "set", "a b"}, {"policy", "set", "team:x"}, {"policy", "set", "x", "--rate", "5"}, {"policy", "set", "x", "--rate", "5/0s"},
		{"policy", "set", "x", "--rate", "20000/1s"}, {"policy", "set", "x", "--quota", "5/10ms"}, {"policy", "set", "x", "--key", "a..b"}, {"policy", "set", "x", "--concurrency=-1"},
		{"policy", "set", "x", "--queue-timeout", "0s"}, {"policy", "set", "x", "--queue-timeout", "never"}, {"policy", "get"}, {"policy", "delete", "a/b"},
		{"queue"}, {"queue", "list"}, {"queue", "list", "a b"}, {"queue", "stats", "a b"}, {"queue", "stats", "--key", "k"}, {"queue", "clear"}, {"queue", "clear", "a/b"}, {"queue", "list", "x", "--limit=-1"},
		{"queue", "stats", "--limit=-1"}, {"policy", "set", "x", "--concurrency", "0"}, {"policy", "set", "x", "--concurrency", "1", "--queue-limit", "0"},
		{"policy", "set", "x", "--key", "tenant"}, {"policy", "set", "x", "--queue-limit", "5"}, {"policy", "set", "x", "--reject"}, {"policy", "set", "x"}, {"policy", "set", "x", "--unlimited", "--reject"},
		{"policy", "set", "x", "--concurrency", "1", "--key", ""}, {"policy", "set", strings.Repeat("x", 101), "--concurrency", "1"},
	} {
		code, out, errs := command(t, args...)
		if code != 2 || out != "" || errs == "" {
			t.Errorf("%q: code %d, out %q, err %q", args, code, out, errs)
		}
	}
	for want, args := range map[string][]string{
		"--quota: needs a window of at least 1 s":     {"--quota", "5/10ms"},
		"--rate: has a window of at most ten years":   {"--rate", "5/100000h"},
		"--quota: has a window of at most ten years":  {"--quota", "5/100000h"},
		"--queue-timeout: must be at most ten years":  {"--concurrency", "1", "--queue-timeout", "100000h"},
		`--concurrency: "0": must be 1 to 2147483647`: {"--concurrency", "0"},
	} {
		if _, _, errs := command(t, append([]string{"policy", "set", "x"}, args...)...); !strings.Contains(errs, want) {
			t.Errorf("%q, want %s", errs, want)
		}
	}
	if _, _, errs := command(t, "policy", "set", "team:x"); !strings.Contains(errs, "want action:NAME, group:NAME, pause:NAME or global") {
		t.Errorf("%q", errs)
	}
}
