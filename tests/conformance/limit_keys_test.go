package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/pkg/history"
)

func (r *limitHarness) keys(name string) []string {
	k := r.space.Limit(name)
	return []string{k.Waiters(), k.Holders(), k.Rejected(), k.Grants(), k.State()}
}

// both makes a call to Redis and to the model, and compares answers and keys. The answer contains its time in ms, or none; the model is
// tried at several times within that ms, and adopts the numbers that Redis assigned.
func (r *limitHarness) both(name, what string, call func() (answer string, now int64), oracle func(g *memlimit.Limit, now int64) string) {
	before := r.now()
	got, now := call()
	times := []int64{now*1000 + 500, now*1000 + 999, now*1000 + 1, now * 1000}
	if now == 0 {
		times = []int64{before, r.now()}
	}
	is := r.read(name)
	var want string
	var differs []string
	for _, t := range times {
		g := r.model[name].Clone()
		if want = oracle(g, t); want != got {
			continue
		}
		if differs = limitDifference(is, g); len(differs) == 0 {
			r.model[name] = g
			r.rt.Logf("%s: %s", what, got)
			return
		}
	}
	if len(differs) > 0 {
		r.differf("%s: %s, and then the keys differ:\n%s", what, got, strings.Join(differs, ""))
		return
	}
	r.differf("%s: Redis answers\n%q, the model\n%q", what, got, want)
}

// now returns Redis TIME in µs.
func (r *limitHarness) now() int64 {
	t, err := r.rdb.Time(r.ctx).Result()
	r.must(err)
	return t.UnixMicro()
}

func (r *limitHarness) content(name string) content {
	all := content{}
	for i, key := range r.keys(name) {
		switch i {
		case 3:
			if v := r.rdb.LRange(r.ctx, key, 0, -1).Val(); len(v) > 0 {
				all[key] = v
			}
		case 4:
			if v := r.rdb.HGetAll(r.ctx, key).Val(); len(v) > 0 {
				all[key] = v
			}
		default:
			if v := r.rdb.ZRangeWithScores(r.ctx, key, 0, -1).Val(); len(v) > 0 {
				all[key] = v
			}
		}
	}
	return all
}

func scored(v any) []redis.Z { z, _ := v.([]redis.Z); return z }

// read returns a limit in Redis as a limit of the model.
func (r *limitHarness) read(name string) *memlimit.Limit {
	all, keys := r.content(name), r.keys(name)
	g := &memlimit.Limit{}
	for _, z := range scored(all[keys[0]]) {
		g.Queue = append(g.Queue, memlimit.Waiter{Member: r.parse(z.Member), Number: int64(z.Score)})
	}
	for _, z := range scored(all[keys[1]]) {
		g.Holders = append(g.Holders, memlimit.Holder{Member: r.parse(z.Member), Known: int64(z.Score)})
	}
	for _, z := range scored(all[keys[2]]) {
		text := z.Member.(string) //nolint:forcetypeassert // a member of ZRANGE
		g.Rejections = append(g.Rejections, memlimit.Rejection{Member: r.parse(text[1:]), Cleared: text[0] == 'c', NoticedAt: int64(z.Score)})
	}
	slices.SortFunc(g.Holders, func(a, b memlimit.Holder) int { return strings.Compare(a.Member.Ticket, b.Member.Ticket) })
	slices.SortFunc(g.Rejections, func(a, b memlimit.Rejection) int { return strings.Compare(a.Member.Ticket, b.Member.Ticket) })
	grants, _ := all[keys[3]].([]string)
	for _, at := range grants {
		g.Grants = append(g.Grants, number(at))
	}
	state, there := all[keys[4]].(map[string]string)
	r.state(g, state)
	g.Exists = there
	g.Expires = there && r.rdb.PTTL(r.ctx, keys[4]).Val() > 0
	return g
}

func (r *limitHarness) state(g *memlimit.Limit, h map[string]string) {
	n := func(field string) int { return int(number(h[field])) }
	g.Count = memlimit.Counts{Entered: n("e"), Completed: n("c"), Withdrawn: n("w"), TimedOut: n("t"), Cleared: n("cl"), Rejected: n("r")}
	g.Used, g.Last, g.Window, g.Spent, g.WasDeadlocked = number(h["u"]), number(h["seq"]), number(h["qs"]), n("qn"), h["dl"] == "1"
	text, policed := h["p"]
	if g.HasPolicy = policed; !policed {
		return
	}
	var p history.Policy
	r.must(json.Unmarshal([]byte(text), &p))
	d, err := eventcodec.DecodeDeclared([]byte(h["d"]))
	r.must(err)
	g.Force = memlimit.Force{Version: n("v"), Declared: d.Group, Policy: memlimit.Policy{
		Concurrency: int(p.Concurrency), Paused: p.Paused, Rate: int(p.Rate), RateWindow: p.RateWindow, Quota: int(p.Quota), QuotaWindow: p.QuotaWindow,
		QueueLimit: int(p.QueueLimit), QueueTimeout: p.QueueTimeout, Reject: p.Reject,
	}}
}

func (r *limitHarness) parse(text any) memlimit.Member {
	m, err := limit.ParseMember(text.(string)) //nolint:forcetypeassert // a member of ZRANGE
	r.must(err)
	return memlimit.Member(m)
}

// limitDifference returns how a limit in Redis differs from the model. Numbers may differ within the ms; the model then adopts those of Redis.
func limitDifference(is, want *memlimit.Limit) (all []string) {
	near := func(a int64, b *int64) {
		if a-*b < 1000 && *b-a < 1000 {
			*b = a
		}
	}
	for i := range min(len(is.Queue), len(want.Queue)) {
		near(is.Queue[i].Number, &want.Queue[i].Number)
	}
	near(is.Last, &want.Last)
	differ := func(what string, a, b any) {
		if x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b); x != y {
			all = append(all, fmt.Sprintf("%s: is %s, should be %s\n", what, x, y))
		}
	}
	differ("waiters", is.Queue, want.Queue)
	differ("holders", is.Holders, want.Holders)
	differ("rejections", is.Rejections, want.Rejections)
	differ("grants", is.Grants, want.Grants)
	differ("policy in force", is.Force, want.Force)
	differ("quota", []any{is.Window, is.Spent}, []any{want.Window, want.Spent})
	differ("counters", is.Count, want.Count)
	differ("exists, last use, last number, deadlocked, expires",
		[]any{is.Exists, is.Used, is.Last, is.WasDeadlocked, is.Expires}, []any{want.Exists, want.Used, want.Last, want.WasDeadlocked, want.Expires})
	return all
}

func (r *limitHarness) pass() {
	const hour = 3_600_000
	d := pick(r, "time", int64(1), 499, 999, 1000, 1001, 1999, 2000, 2001, 2500, 60_000, hour+1, -1500, -hour)
	r.rt.Logf("time passes: %d ms", d)
	for name, g := range r.model {
		r.restore(name, shifted(r.content(name), r.keys(name), d), r.rdb.PTTL(r.ctx, r.space.Limit(name).State()).Val() > 0)
		g.Shift(d)
	}
}

// shifted moves the times of a content into the past, by d ms.
func shifted(all content, keys []string, d int64) content {
	for i, key := range keys {
		switch v := all[key].(type) {
		case []redis.Z:
			for k := range v {
				switch {
				case i == 0:
					v[k].Score -= float64(d * 1000)
				case v[k].Score != 0: // 0 is no time: no notice has been sent
					v[k].Score -= float64(d)
				}
			}
		case []string:
			for k := range v {
				v[k] = strconv.FormatInt(number(v[k])-d, 10)
			}
		case map[string]string:
			for field, unit := range map[string]int64{"seq": 1000, "u": 1, "qs": 1} {
				if v[field] != "" {
					v[field] = strconv.FormatInt(number(v[field])-d*unit, 10)
				}
			}
		}
	}
	return all
}

// restore replaces the content of a limit in Redis. With expires its keys expire in an hour.
func (r *limitHarness) restore(name string, all content, expires bool) {
	pipe := r.rdb.TxPipeline()
	for _, key := range r.keys(name) {
		pipe.Del(r.ctx, key)
	}
	all.write(r.ctx, pipe)
	for key, v := range all {
		if _, state := v.(map[string]string); state && expires {
			pipe.Expire(r.ctx, key, ms(3_600_000))
		}
	}
	_, err := pipe.Exec(r.ctx)
	r.must(err)
}

func (r *limitHarness) save() {
	r.saved, r.savedAs = map[string]content{}, map[string]*memlimit.Limit{}
	for name, g := range r.model {
		r.saved[name], r.savedAs[name] = r.content(name), g.Clone()
	}
}

func (r *limitHarness) rollback() {
	if r.saved == nil {
		return
	}
	name := r.limit()
	r.rt.Logf("ROLLBACK of %s", name)
	r.restore(name, r.saved[name], r.savedAs[name].Expires)
	r.model[name] = r.savedAs[name].Clone()
}
