package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// content contains all keys of the partition in Redis: a hash, sorted set or list by key.
type content map[string]any

func (r *harness) keys() []string {
	keys, err := r.rdb.Keys(r.ctx, r.part.Prefix()+"*").Result()
	r.must(err)
	slices.Sort(keys)
	return keys
}

// kind parses a key.
func (r *harness) kind(key string) redisx.ParsedKey {
	n, ok := r.part.Parse(key)
	if !ok {
		r.rt.Fatalf("key %s is not one of Pawl's", key)
	}
	return n
}

func (r *harness) read() content {
	all := content{}
	pipe := r.rdb.Pipeline()
	cmds := map[string]redis.Cmder{}
	for _, key := range r.keys() {
		switch r.kind(key).Kind {
		case "p", "i", "l", "r", "early", "stalled":
			cmds[key] = pipe.HGetAll(r.ctx, key)
		case "wakeups", "limits", "d", "x", "v", "orchestrations":
			cmds[key] = pipe.ZRangeWithScores(r.ctx, key, 0, -1)
		case "h", "in":
			cmds[key] = pipe.LRange(r.ctx, key, 0, -1)
		}
	}
	_, err := pipe.Exec(r.ctx)
	r.must(err)
	for key, cmd := range cmds {
		switch c := cmd.(type) {
		case *redis.MapStringStringCmd:
			all[key] = c.Val()
		case *redis.ZSliceCmd:
			all[key] = c.Val()
		case *redis.StringSliceCmd:
			all[key] = c.Val()
		}
	}
	return all
}

// restore replaces the content of Redis by an earlier one, like a restart from an old file.
func (r *harness) restore(all content) {
	pipe := r.rdb.TxPipeline()
	for _, key := range r.keys() {
		pipe.Del(r.ctx, key)
	}
	all.write(r.ctx, pipe)
	_, err := pipe.Exec(r.ctx)
	r.must(err)
}

// write writes the keys of a content.
func (all content) write(ctx context.Context, pipe redis.Pipeliner) {
	for key, v := range all {
		switch v := v.(type) {
		case map[string]string:
			pipe.HSet(ctx, key, v)
		case []redis.Z:
			pipe.ZAdd(ctx, key, v...)
		case []string:
			for _, e := range v {
				pipe.RPush(ctx, key, e)
			}
		}
	}
}

// shift moves the times in Redis into the past.
func (r *harness) shift(d int64) {
	pipe := r.rdb.TxPipeline()
	pipe.Exists(r.ctx, r.part.Owner())
	for key, v := range r.read() {
		switch k := r.kind(key).Kind; k {
		case "wakeups", "limits", "d":
			for _, z := range v.([]redis.Z) { //nolint:forcetypeassert // ensured by read
				pipe.ZAdd(r.ctx, key, redis.Z{Member: z.Member, Score: z.Score - float64(d)})
			}
		case "p", "l":
			h := v.(map[string]string) //nolint:forcetypeassert // ensured by read
			field := map[string]string{"p": "until", "l": "u"}[k]
			if h[field] != "" && (k == "l" || h["owner"] != "") {
				pipe.HSet(r.ctx, key, field, strconv.FormatInt(number(h[field])-d, 10))
			}
			if k == "l" && h["r"] != "" {
				pipe.HSet(r.ctx, key, "r", strconv.FormatInt(number(h["r"])-d, 10))
			}
		}
	}
	_, err := pipe.Exec(r.ctx)
	r.must(err)
}

func place(s string) memstore.Place {
	execution, event, _ := strings.Cut(s, ".")
	return memstore.Place{Execution: uint64(number(execution)), Event: uint64(number(event))}
}

func number(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }

// snapshot reads the partition as a model. It also checks what the model does not represent: that each instance is in the index of
// its status and the sets of its values, with one score, and in no other.
func (r *harness) snapshot() *memstore.Store {
	s := memstore.NewStore(rules())
	get := func(id string) *memstore.Instance {
		if s.Instances[id] == nil {
			s.Instances[id] = memstore.NewInstance()
		}
		return s.Instances[id]
	}
	index, sets := map[string]string{}, map[string][]string{}
	for key, v := range r.read() {
		n := r.kind(key)
		switch v := v.(type) {
		case map[string]string:
			r.hash(s, get, n, v)
		case []redis.Z:
			for _, z := range v {
				member := z.Member.(string) //nolint:forcetypeassert // a member of ZRANGE
				switch n.Kind {
				case "wakeups":
					s.Wakeups[member] = int64(z.Score)
				case "limits":
					s.Limits[member] = int64(z.Score)
				case "d":
					get(n.Instance).Seen[member] = int64(z.Score)
				case "x":
					index[member] += n.Instance
				case "v":
					sets[member] = append(sets[member], fmt.Sprintf("%s %.0f", key, z.Score))
				}
			}
		case []string:
			if n.Kind == "h" {
				get(n.Instance).Histories[n.Execution] = v
				continue
			}
			for _, raw := range v {
				e, err := eventcodec.ParseElement([]byte(raw))
				r.must(err)
				get(n.Instance).Inbox = append(get(n.Instance).Inbox, memstore.Element{ID: unsealed(e.ID), Time: e.At, Tag: string(e.Body)})
			}
		}
	}
	for id, in := range s.Instances {
		if index[id] != in.Status {
			r.differf("%s has status %q and is in the indexes of %q", id, in.Status, index[id])
		}
		var want []string
		if in.Head != "" {
			want = append(want, r.part.Values("orchestration", "n")+" 0")
		}
		if in.Parent != "" {
			want = append(want, r.part.Values("parent", in.Parent)+" 0")
		}
		if slices.Sort(sets[id]); !slices.Equal(sets[id], want) {
			r.differf("%s is in the sets %q, want %q", id, sets[id], want)
		}
		delete(sets, id)
	}
	if len(sets) > 0 {
		r.differf("missing instances are in sets: %v", sets)
	}
	return s
}

func (r *harness) hash(s *memstore.Store, get func(string) *memstore.Instance, n redisx.ParsedKey, h map[string]string) {
	switch n.Kind {
	case "p":
		s.Owner = memstore.Ownership{
			Token: h["owner"], Until: number(h["until"]), Span: number(h["span"]), Clean: h["clean"] == "1", Epoch: uint64(number(h["epoch"])),
			Applied: memstore.Position{Seq: uint64(number(h["seq"])), Time: number(h["time"])}, Commits: number(h["commits"]),
		}
	case "i":
		get(n.Instance).Record = memstore.Record{
			Head: h["head"], Status: h["status"], Execution: uint64(number(h["execution"])), Events: int(number(h["events"])), End: h["end"],
			Custom: uint64(number(h["custom.version"])), Out: place(h["prod"]), Sent: place(h["pub"]), Parent: strings.Split(h["parent"], " ")[0],
		}
	case "r":
		for activity, text := range h {
			get(n.Instance).Reports[memstore.Place{Execution: n.Execution, Event: uint64(number(activity))}] = text
		}
	case "l":
		get(n.Instance).Leases[memstore.Place{Execution: n.Execution, Event: n.Activity}] = memstore.Lease{
			Effect: h["e"], Token: h["t"], Worker: h["w"], Until: number(h["u"]), Span: number(h["d"]), Claims: int(number(h["n"])), ReturnedAt: number(h["r"]),
		}
	}
}

// difference returns how Redis differs from the model. Times may differ by slack; the model then adopts those of Redis.
func difference(is, want *memstore.Store, slack int64) (all []string) {
	differ := func(what string, a, b any) {
		if x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); x != y {
			all = append(all, fmt.Sprintf("%s: is %s, should be %s\n", what, x, y))
		}
	}
	near := func(a int64, b *int64) {
		if a-*b <= slack && *b-a <= slack {
			*b = a
		}
	}
	near(is.Owner.Until, &want.Owner.Until)
	differ("owner", is.Owner, want.Owner)
	for id, at := range want.Wakeups {
		near(is.Wakeups[id], &at)
		want.Wakeups[id] = at
	}
	differ("wakeups", is.Wakeups, want.Wakeups)
	for name, at := range want.Limits {
		near(is.Limits[name], &at)
		want.Limits[name] = at
	}
	differ("limits", is.Limits, want.Limits)
	ids := slices.Collect(maps.Keys(is.Instances))
	for _, id := range append(ids, slices.Collect(maps.Keys(want.Instances))...) {
		a, b := is.Get(id), want.Get(id)
		differ(id+" record", a.Record, b.Record)
		differ(id+" histories", a.Histories, b.Histories)
		differ(id+" inbox", bare(a.Inbox), bare(b.Inbox))
		differ(id+" seen", a.Seen, b.Seen)
		for n, l := range b.Leases {
			near(a.Leases[n].Until, &l.Until)
			near(a.Leases[n].ReturnedAt, &l.ReturnedAt)
			b.Leases[n] = l
		}
		differ(id+" leases", a.Leases, b.Leases)
		differ(id+" reports", a.Reports, b.Reports)
	}
	return all
}

// bare removes the fields that only the model uses.
func bare(es []memstore.Element) (out []memstore.Element) {
	for _, e := range es {
		out = append(out, memstore.Element{ID: e.ID, Time: e.Time, Tag: e.Tag})
	}
	return out
}

// leasesOf converts leases of the model to leases of the store.
func leasesOf(cs []memstore.Create) (out []record.Lease) {
	for _, c := range cs {
		l := record.Lease{Activity: c.Activity, Effect: c.Effect}
		if c.Token != "" {
			l.Claim = &record.Claim{Token: c.Token, Worker: c.Worker, TTL: ms(leaseTTL)}
		}
		out = append(out, l)
	}
	return out
}
