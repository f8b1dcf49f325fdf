package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/resize"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// member starts an orchestrator of a namespace with eight partitions.
func member(t *testing.T, nats, redis string) *orchestrator.Orchestrator {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	nc, err := settings.NATS{NATSURL: settings.URL(nats)}.OpenNATS(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	rdb, err := settings.Redis{RedisURL: settings.URL(redis)}.OpenRedis(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb, Namespace: "small", Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestPartitionsAreResizedWhenTheFleetIsStopped(t *testing.T) {
	nats, redis := harnessAt(t, fleets{})
	o := member(t, nats, redis)
	to := []string{"--namespace", "small", "--redis", redis, "--nats", nats}
	args := func(more ...string) []string { return append(append([]string{"partitions", "resize"}, more...), to...) }
	if code, _, errs := command(t, args("16")...); code != 1 || !strings.Contains(errs, "the fleet is not stopped: orchestrator "+o.Member()) {
		t.Errorf("code %d: %s", code, errs)
	}
	stopping, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := o.Stop(stopping); err != nil {
		t.Fatal(err)
	}
	must(t, "send", "early", "go", "--namespace", "small", "--nats", nats) // nothing has read it
	wantText(t, must(t, args("16", "--dry-run")...), "8 to 16 partitions: 0 instances", "would move")
	var got resize.Result
	if err := json.Unmarshal([]byte(must(t, args("16", "--json")...)), &got); err != nil || got.From != 8 || got.To != 16 || got.Inputs != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	wantText(t, must(t, args("16")...), "16 to 16 partitions: 0 instances (0 keys) moved, 0 inputs read")
	wantText(t, must(t, append([]string{"check"}, to[:4]...)...), "0 findings")
	if code, _, errs := command(t, args("1025")...); code != 2 || !strings.Contains(errs, "must be 1 to 1024") {
		t.Errorf("code %d: %s", code, errs)
	}
}
