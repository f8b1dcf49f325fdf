package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
)

// If stored data does not decode, a command reports it in an error of one line or in a line of its list. The commands do not hang, and other
// instances are shown.
func TestCommandsReportUnreadableData(t *testing.T) {
	nap, wake := pawl.NewOrchestration[pawl.None, pawl.None]("nap"), pawl.NewEvent[pawl.None]("wake")
	nats, url := harnessAt(t, fleets{orchestrations: []pawl.OrchestrationBinding{
		nap.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) { return wake.Receive(ctx) }),
	}})
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(o)
	atEnd(t, rdb.Close)
	ctx := t.Context()
	overlong := "\x96\x01\x01\xdb\xff\xff\xff\xff00000000" // msgpack with a string of 2^32 bytes
	text := func(key string) { rdb.Del(ctx, key); rdb.Set(ctx, key, "a text", 0) }
	spoil := map[string]func(p redisx.Part, id string){
		"record-type": func(p redisx.Part, id string) { text(p.Instance(id)) },
		"record-garbage": func(p redisx.Part, id string) {
			rdb.HSet(ctx, p.Instance(id), "execution", "x", "orig", "\x1b[2J", "end", overlong, "ended", "1")
		},
		"record-end":       func(p redisx.Part, id string) { rdb.HSet(ctx, p.Instance(id), "status", "failed", "end", overlong) },
		"history-type":     func(p redisx.Part, id string) { text(p.History(id, 1)) },
		"history-overlong": func(p redisx.Part, id string) { rdb.LSet(ctx, p.History(id, 1), 0, overlong) },
		"inbox-type":       func(p redisx.Part, id string) { text(p.Inbox(id)) },
		"inbox-garbage":    func(p redisx.Part, id string) { rdb.RPush(ctx, p.Inbox(id), "garbage", "s1.2\n1\n"+overlong) },
		"reports-overlong": func(p redisx.Part, id string) { rdb.HSet(ctx, p.Reports(id, 1), "2", strings.Repeat("9", 10_000)) },
		"stalled-overlong": func(p redisx.Part, id string) { rdb.HSet(ctx, p.Stalled(), id, "{\x1b[2J") },
	}
	ids := slices.Sorted(maps.Keys(spoil))
	for _, id := range append(ids, "neighbor") {
		must(t, at("start", "nap", id)...)
	}
	for _, id := range append(ids, "neighbor") {
		eventually(t, id+" runs", func() bool {
			code, out, _ := command(t, at("get", id)...)
			return code == 0 && strings.Contains(out, "running")
		})
	}
	for _, id := range ids {
		spoil[id](redisx.NewSpace("default").Part(transport.PartitionOf(id, 4)), id)
	}
	for _, id := range append(ids, "neighbor") {
		for _, cmd := range []string{"get", "history"} {
			_, out, errs := command(t, at(cmd, id)...)
			readable(t, cmd+" "+id, out, errs)
			if spoiled := strings.HasSuffix(id, "overlong") && strings.HasPrefix(id, cmd); spoiled && errs == "" {
				t.Errorf("%s %s: no error:\n%s", cmd, id, out)
			}
		}
	}
	code, out, errs := command(t, at("list")...)
	readable(t, "list", out, errs)
	if code != 0 || !strings.Contains(out, "neighbor") {
		t.Errorf("list: code %d\n%s\n%s", code, out, errs)
	}
	_, out, errs = command(t, at("list", "--stalled")...)
	readable(t, "list --stalled", out, errs)
	code, out, errs = command(t, "check", "--redis", url)
	readable(t, "check", out, errs)
	for _, id := range []string{"record-type", "record-garbage", "record-end", "history-type", "history-overlong", "inbox-type", "inbox-garbage"} {
		if !strings.Contains(out+errs, id) {
			t.Errorf("check does not name %s:\n%s%s", id, out, errs)
		}
	}
	if code != 1 || strings.Contains(out, "neighbor") {
		t.Errorf("check: code %d\n%s", code, out)
	}
}

// readable requires output without control characters and with short lines, and an error of one line.
func readable(t *testing.T, what, out, errs string) {
	t.Helper()
	if what != "check" && (strings.Count(errs, "\n") > 1 || errs != "" && !strings.HasPrefix(errs, "pawl: ")) { // it shows its progress there
		t.Errorf("%s: error is not one line: %s", what, errs)
	}
	for line := range strings.Lines(out + errs) {
		if len(line) > 2000 || !utf8.ValidString(line) || strings.ContainsRune(line, '\x1b') || strings.Contains(line, "goroutine ") {
			t.Errorf("%s: not readable: %.300q", what, fmt.Sprint(line))
		}
	}
}
