package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pawltest"
)

// An order charges, waits for an update with the decision, and ships. Shipping fails once. The price can be queried.
func TestInstanceIsUpdatedQueriedPausedRetriedAndTerminated(t *testing.T) {
	var (
		order            = pawl.NewOrchestration[int, string]("order")
		charge           = pawl.NewActivity[int, int]("charge")
		ship             = pawl.NewActivity[int, string]("ship")
		decide           = pawl.NewUpdate[bool, string]("decide")
		price            = pawl.NewQuery[pawl.None, int]("price")
		charges, shipped atomic.Int32
	)
	orders := order.Do(func(ctx *pawl.Context, n int) (string, error) {
		paid, err := charge.Call(ctx, n)
		if err != nil {
			return "", err
		}
		if err := price.Handle(ctx, func(pawl.None) (int, error) { return paid, nil }); err != nil {
			return "", err
		}
		decision, err := decide.Next(ctx).Get(ctx)
		if err != nil {
			return "", err
		}
		if err := decision.Answer(ctx, "decided by "+decision.By); err != nil {
			return "", err
		}
		return ship.Call(ctx, paid)
	})
	nats := harness(t, fleets{
		orchestrations: []pawl.OrchestrationBinding{orders},
		activities: []pawl.ActivityBinding{
			charge.Do(func(_ context.Context, n int) (int, error) { charges.Add(1); return 2 * n, nil }),
			ship.Do(func(context.Context, int) (string, error) {
				if shipped.Add(1) == 1 {
					return "", errors.New("no truck")
				}
				return "shipped", nil
			}),
		},
	})
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	fails := func(want string, args ...string) {
		t.Helper()
		if code, _, errs := command(t, at(args...)...); code != 1 || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: code %d, %q, want %q", args, code, errs, want)
		}
	}
	must(t, at("start", "order", "o-1", "--input", "21", "--attribute", "tenant=acme")...)
	wantText(t, must(t, at("pause", "o-1", "--reason", "stocktaking")...), "o-1: paused")
	wantText(t, must(t, at("get", "o-1")...), "paused by", "paused for stocktaking")
	wantText(t, must(t, at("list", "--where", `tenant = "acme"`)...), "o-1 order", "paused")
	wantText(t, must(t, at("list", "--status", "paused")...), "o-1 order")
	wantText(t, must(t, at("resume", "o-1", "--json")...), `"status":"running"`)
	update := at("update", "o-1", "decide", "true", "--update-id", "u-1", "--by", "ann")
	for range 2 { // a repeat gets the same answer
		if got := must(t, update...); got != "\"decided by ann\"\n" {
			t.Errorf("update: %q", got)
		}
	}
	fails("no truck", "get", "o-1", "--wait")
	wantText(t, must(t, at("list", "--status", "failed")...), "PROBLEM", "no truck") // a plain error has no code
	wantText(t, must(t, at("list", "--status", "failed", "--json")...), `"error":"no truck"`)
	poll.Until(t, time.Minute, "the query is answered", func() bool { // on a busy machine, 50 ms may pass before its handler runs
		_, out, _ := command(t, at("query", "o-1", "price")...)
		return out == "42\n"
	})
	wantText(t, must(t, at("retry", "o-1", "--dry-run")...), "runs again: activity ship")
	must(t, at("retry", "o-1", "--reason", "there is a truck")...)
	if got := must(t, at("get", "o-1", "--wait", "--timeout", "30s")...); !strings.Contains(got, "shipped") {
		t.Errorf("after the retry:\n%s", got)
	}
	if charges.Load() != 1 || shipped.Load() != 2 {
		t.Errorf("charged %d times, shipped %d times", charges.Load(), shipped.Load())
	}
	wantText(t, must(t, at("versions")...), "order")
	exported := must(t, at("export", "o-1")...)
	wantText(t, exported, `"pawl_export":1`, `"kind":"Rewound"`)
	pawltest.Replay(t, []byte(exported), orders) // both executions
	file := filepath.Join(t.TempDir(), "o-1.json")
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, must(t, at("import", "o-9", file, "--continue")...), "o-9: imported (completed, execution 2)")
	wantText(t, must(t, at("get", "o-9")...), "shipped")
	fails("o-9", "import", "o-9", file)

	wantText(t, must(t, at("rewind", "o-1", "--to", "2", "--dry-run")...), "keeps its result: activity charge", "received again: 1 update")
	wantText(t, must(t, at("rewind", "o-1", "--to", "2", "--reason", "wrong price", "--json")...), `"status":"running"`)
	wantText(t, must(t, at("get", "o-1", "--wait", "--timeout", "30s")...), "shipped")
	if charges.Load() != 1 || shipped.Load() != 3 {
		t.Errorf("after the rewind: charged %d times, shipped %d times", charges.Load(), shipped.Load())
	}

	must(t, at("start", "order", "o-2", "--input", "1")...)
	wantText(t, must(t, at("terminate", "o-2", "--reason", "a duplicate")...), "o-2: terminated (")
	fails("a duplicate", "get", "o-2", "--wait")
	fails("o-2", "update", "o-2", "decide", "true")
	fails("there is no instance o-3", "pause", "o-3")

	where := []string{"--where", "orchestration = order"}
	if got := must(t, at(append([]string{"batch", "retry", "--dry-run"}, where...)...)...); got != "1 instance\n" {
		t.Errorf("dry run: %q", got)
	}
	wantText(t, must(t, at(append([]string{"batch", "retry", "--id", "again", "--json"}, where...)...)...), `"status":"completed"`, `"sent":1`)
	wantText(t, must(t, at("batch", "describe", "again")...), "retry", "orchestration = order", "1, 0 skipped")
	wantText(t, must(t, at("batch", "list")...), "again", "completed")
	fails("no such batch", "batch", "describe", "o-1")
	fails("there is no instance o-3", "query", "o-3", "price")
}
