//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
)

const (
	explained  = 5 // maximum number of unfinished instances that are explained
	tailEvents = 6 // latest events shown from a history
)

// explain logs what unfinished instances wait for and the state of the streams, and writes both to the evidence file.
func (h *harness) explain(ctx context.Context, stalled []string) {
	h.t.Helper()
	if len(stalled) == 0 {
		return
	}
	var out strings.Builder
	run, err := h.redis()
	if err != nil {
		h.t.Log(err)
		return
	}
	defer run.Close()
	e := evidence{Builder: &out, run: run, rdb: run.Client(), space: redisx.NewSpace(namespace), partitions: h.partitions}
	for _, text := range stalled[:min(len(stalled), explained)] {
		id, _, _ := strings.Cut(text, ":")
		e.instance(ctx, id, 0)
	}
	if err := e.streams(ctx, h.servers.natsURL()); err != nil {
		e.linef(0, "streams: %v", err)
	}
	h.t.Logf("unfinished instances:\n%s", out.String())
	if err := os.WriteFile(filepath.Join(h.dir, "evidence.log"), []byte(out.String()), 0o600); err != nil {
		h.t.Log(err)
	}
}

func (h *harness) redis() (*redisx.Runner, error) {
	rdb, err := settings.Redis{RedisURL: settings.URL(h.servers.redisURL()), RedisCA: os.Getenv("PAWL_REDIS_CA")}.DialRedis(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	h.t.Cleanup(func() { _ = rdb.Close() })
	return redisx.NewRunner(rdb), nil
}

type evidence struct {
	*strings.Builder
	run   *redisx.Runner
	rdb   redis.UniversalClient
	space redisx.Space

	partitions int
}

func (e evidence) linef(depth int, format string, args ...any) {
	fmt.Fprintf(e, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

// instance writes what an instance waits for, followed by its outstanding children.
func (e evidence) instance(ctx context.Context, id string, depth int) {
	part := transport.PartitionOf(id, e.partitions)
	p := e.space.Part(part)
	l, err := store.NewReader(e.run, e.space).Load(ctx, part, id)
	now, terr := e.rdb.Time(ctx).Result()
	wakeup, werr := e.rdb.ZScore(ctx, p.Wakeups(), id).Result()
	e.linef(depth, "%s in partition %d: load %v; time %v %v; wakeup in %v (%v); stalled %q", id, part, err, now.UTC().Format(time.TimeOnly), terr,
		time.Duration(int64(wakeup)-now.UnixMilli())*time.Millisecond, werr, e.rdb.HGet(ctx, p.Stalled(), id).Val())
	e.linef(depth+1, "owner %v", e.rdb.HGetAll(ctx, p.Owner()).Val())
	for _, raw := range l.Unread {
		el, err := eventcodec.ParseElement(raw)
		e.linef(depth+1, "unread %s at %d %v", el.ID, el.At, err)
	}
	if l.Record == nil {
		return
	}
	r := l.Record
	e.linef(depth+1, "%s, execution %d, %d events, updated %v ago, messages produced %q published %q",
		r.Status, r.Execution, r.Events, time.Duration(now.UnixMilli()-r.Updated)*time.Millisecond, r.Produced, r.Published)
	for _, ev := range l.Events[max(0, len(l.Events)-tailEvents):] {
		text, _ := json.Marshal(ev)
		e.linef(depth+1, "event %d %v %.300s", ev.Meta().ID, ev.Kind(), text)
	}
	state, _ := fold.Check(l.Events)
	for _, a := range state.Outstanding() {
		e.linef(depth+1, "activity %d: admitted %v, lease %v", a, !state.Waiting(a), e.rdb.HGetAll(ctx, p.Lease(id, r.Execution, a)).Val())
	}
	if t, ok := state.NextTimer(); ok {
		e.linef(depth+1, "timer %d in %v", t.ID, time.Duration(t.FireAt-now.UnixMilli())*time.Millisecond)
	}
	for _, c := range state.Children() {
		e.instance(ctx, state.Child(c).Instance, depth+1)
	}
}

// streams writes the state of both streams and of their consumers.
func (e evidence) streams(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, name := range []string{"INPUTS", "TASKS"} {
		s, err := js.Stream(ctx, "PAWL-"+namespace+"-"+name)
		if err != nil {
			e.linef(0, "%s: %v", name, err)
			continue
		}
		cluster, _ := json.Marshal(s.CachedInfo().Cluster)
		e.linef(0, "%s: %+v %s", name, s.CachedInfo().State, cluster)
		list := s.ListConsumers(ctx)
		for c := range list.Info() {
			cluster, _ := json.Marshal(c.Cluster)
			e.linef(1, "%s of %s: %d pending, %d unacknowledged, %d requests, delivered up to %d, %s",
				c.Name, c.Config.FilterSubject, c.NumPending, c.NumAckPending, c.NumWaiting, c.Delivered.Stream, cluster)
		}
		if list.Err() != nil {
			e.linef(1, "consumers: %v", list.Err())
		}
	}
	return nil
}
