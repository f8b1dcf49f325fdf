package store_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
)

// placed is a namespace whose number of partitions changes.
type placed struct {
	*testing.T
	rdb     redis.UniversalClient
	run     *redisx.Runner
	space   redisx.Space
	tenures []store.Tenure
}

// seize seizes n partitions in the name of the run id.
func (b *placed) seize(id string, n int) {
	b.Helper()
	c := partition.NewChange(b.run, b.space)
	b.tenures = nil
	for p := range n {
		_, secret, err := c.Seize(b.Context(), id, p)
		if err != nil {
			b.Fatal(err)
		}
		b.tenures = append(b.tenures, store.Tenure{Part: p, Token: c.Token, Secret: secret})
	}
}

func homes(n int) func(string) int {
	return func(id string) int { return transport.PartitionOf(id, n) }
}

// fill writes keys of each kind for a number of instances in n partitions.
func (b *placed) fill(instances, n int) {
	b.Helper()
	pipe := b.rdb.Pipeline()
	ctx := b.Context()
	for i := range instances {
		id := fmt.Sprintf("inst:%d", i)
		t := b.tenures[transport.PartitionOf(id, n)]
		p, score := b.space.Part(t.Part), float64(1_790_000_000_000+i)
		pipe.RPush(ctx, p.Inbox(id), "s1.2"+t.Seal()+"\n5\nbody", "effect\n6\nof a worker", "full.9"+t.Seal()+"\n7\n")
		pipe.ZAdd(ctx, p.Wakeups(), redis.Z{Score: score, Member: id})
		if i%5 == 0 { // early inputs
			pipe.HIncrBy(ctx, p.Early(), "", int64(i+1))
			pipe.HSet(ctx, p.Early(), id, i+1)
			continue
		}
		pipe.HSet(ctx, p.Instance(id), "name", "o", "status", "running", "execution", 2)
		for e := range 20 * (i%4 + 1) {
			pipe.RPush(ctx, p.History(id, 1), fmt.Sprint("event ", e))
		}
		pipe.RPush(ctx, p.History(id, 2), strings.Repeat("x", 1+i*100))
		pipe.ZAdd(ctx, p.Seen(id), redis.Z{Score: score, Member: "to.event.go 1"})
		pipe.PExpire(ctx, p.Seen(id), time.Hour)
		pipe.HSet(ctx, p.Updates(id), "offer u", "o1.2")
		pipe.HSet(ctx, p.Lease(id, 2, 7), "e", "effect", "n", 1, "k", "of another partition")
		pipe.HSet(ctx, p.Reports(id, 1), "3", "ended")
		pipe.ZAdd(ctx, p.Index("running"), redis.Z{Score: score, Member: id})
		pipe.ZAdd(ctx, p.Values("orchestration", fmt.Sprint("o", i%3)), redis.Z{Member: id})
		pipe.ZAdd(ctx, p.Orchestrations(), redis.Z{Member: fmt.Sprint("o", i%3)})
		pipe.ZAdd(ctx, p.Numbers("size"), redis.Z{Score: float64(i), Member: id})
		pipe.HSet(ctx, p.Stalled(), id, "code")
		pipe.LPush(ctx, p.Refused(), fmt.Sprintf(`{"instance":%q,"seq":%d,"at":1,"reason":"x"}`, id, i))
		limit := fmt.Sprint("limit/", i)
		pipe.ZAdd(ctx, b.space.Part(transport.PartitionOf(limit, n)).Limits(), redis.Z{Score: score, Member: limit})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		b.Fatal(err)
	}
}

// content returns all data, by key without its partition, and the members of the lists of partitions; it omits and verifies the values that
// depend on the secret of a partition.
func (b *placed) content(n int) map[string]string {
	b.Helper()
	out := make(map[string]string)
	put := func(part int, name, home, value string) {
		if want := transport.PartitionOf(home, n); part != want {
			b.Errorf("%s of %s is in partition %d, want %d", name, home, part, want)
		}
		if _, double := out[name]; double {
			b.Errorf("%s is stored twice", name)
		}
		out[name] = value
	}
	for _, t := range b.tenures {
		b.contentOf(t, put)
	}
	return out
}

func (b *placed) contentOf(t store.Tenure, put func(part int, name, home, value string)) {
	b.Helper()
	ctx, p := b.Context(), b.space.Part(t.Part)
	for _, key := range b.keys(p.Prefix() + "*") {
		k, ok := p.Parse(key)
		if !ok {
			b.Errorf("key %s is not one of Pawl's", key)
		}
		name := strings.TrimPrefix(key, p.Prefix())
		switch k.Kind {
		case "p":
		case "i", "u", "r":
			put(t.Part, name, k.Instance, fmt.Sprint(b.rdb.HGetAll(ctx, key).Val()))
		case "l":
			lease := b.rdb.HGetAll(ctx, key).Val()
			inner := sha1.Sum([]byte("element"))
			outer := sha1.Sum([]byte(lease["k"] + hex.EncodeToString(inner[:])))
			if lease["k"] != "of another partition" && !t.VerifyProof(k.Instance, lease["e"], []byte("element"), hex.EncodeToString(outer[:])) {
				b.Errorf("%s: the owner of partition %d does not accept a doorbell", name, t.Part)
			}
			delete(lease, "k")
			put(t.Part, name, k.Instance, fmt.Sprint(lease))
		case "h":
			put(t.Part, name, k.Instance, fmt.Sprint(b.rdb.LRange(ctx, key, 0, -1).Val()))
		case "in":
			all := fmt.Sprint(b.rdb.LRange(ctx, key, 0, -1).Val())
			if n := strings.Count(all, t.Seal()); n != 2 {
				b.Errorf("%s has %d elements with the seal of partition %d", name, n, t.Part)
			}
			put(t.Part, name, k.Instance, strings.ReplaceAll(all, t.Seal(), ""))
		case "d":
			if b.rdb.PTTL(ctx, key).Val() <= 0 {
				b.Errorf("%s does not expire", name)
			}
			put(t.Part, name, k.Instance, fmt.Sprint(b.rdb.ZRangeWithScores(ctx, key, 0, -1).Val()))
		case "orchestrations":
			for _, o := range b.rdb.ZRange(ctx, key, 0, -1).Val() {
				if b.rdb.Exists(ctx, p.Values("orchestration", o)).Val() == 0 {
					b.Errorf("partition %d has a name and no instances of %s", t.Part, o)
				}
			}
		case "early", "stalled":
			b.hash(t.Part, name, b.rdb.HGetAll(ctx, key).Val(), put)
		case "refused":
			for _, entry := range b.rdb.LRange(ctx, key, 0, -1).Val() {
				instance, _, _ := strings.Cut(strings.TrimPrefix(entry, `{"instance":"`), `"`)
				put(t.Part, name+" "+entry, instance, "")
			}
		default:
			if o, ok := strings.CutPrefix(k.Instance, "orchestration:"); ok && b.rdb.ZScore(ctx, p.Orchestrations(), o).Err() != nil {
				b.Errorf("partition %d has instances and not the name of %s", t.Part, o)
			}
			for _, z := range b.rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
				put(t.Part, fmt.Sprint(name, " ", z.Member), fmt.Sprint(z.Member), fmt.Sprint(z.Score))
			}
		}
	}
}

func (b *placed) hash(part int, name string, fields map[string]string, put func(part int, name, home, value string)) {
	b.Helper()
	if all, ok := fields[""]; ok {
		sum := 0
		for id, v := range fields {
			if n := 0; id != "" {
				_, _ = fmt.Sscan(v, &n)
				sum += n
			}
		}
		if fmt.Sprint(sum) != all {
			b.Errorf("partition %d: early inputs have %d bytes, %s are counted", part, sum, all)
		}
	}
	for id, v := range fields {
		if id != "" {
			put(part, name+" "+id, id, v)
		}
	}
}

func (b *placed) keys(pattern string) (all []string) {
	b.Helper()
	scan := func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, pattern, 1000).Result()
			if all = append(all, keys...); err != nil || next == 0 {
				return err
			}
			cursor = next
		}
	}
	var err error
	if cluster, ok := b.rdb.(*redis.ClusterClient); ok {
		nodes := make(chan redis.Cmdable, 16)
		err = cluster.ForEachMaster(b.Context(), func(_ context.Context, c *redis.Client) error { nodes <- c; return nil })
		close(nodes)
		for c := range nodes {
			err = errors.Join(err, scan(b.Context(), c))
		}
	} else {
		err = scan(b.Context(), b.rdb)
	}
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// resize moves all data to n partitions; each step is interrupted several times and repeated.
func (b *placed) resize(n int, keys int64) {
	b.Helper()
	st := store.NewReader(b.run, b.space)
	for _, step := range []func(*store.Placement, context.Context) error{(*store.Placement).Copy, (*store.Placement).Remove} {
		for range 4 {
			ctx, stop := context.WithCancel(b.Context())
			left := atomic.Int64{}
			left.Store(1 + rand.Int64N(keys))
			m := st.NewPlacement(homes(n), b.tenures, func(int) {
				if left.Add(-1) == 0 {
					stop()
				}
			})
			if err := step(m, ctx); err != nil && ctx.Err() == nil {
				b.Fatal(err)
			}
			stop()
		}
		if err := step(st.NewPlacement(homes(n), b.tenures, func(int) {}), b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	left, err := st.NewPlacement(homes(n), nil, nil).Misplaced(b.Context())
	if err != nil || left.Any() {
		b.Errorf("left: %+v, %v", left, err)
	}
}

func TestPlacementMovesEveryKeyWhateverIsInterrupted(t *testing.T) {
	redistest.Real(t, func(t *testing.T, rdb redis.UniversalClient) {
		run := redisx.NewRunner(rdb)
		t.Cleanup(run.Close)
		b := &placed{T: t, rdb: rdb, run: run, space: redisx.NewSpace(redistest.Namespace())}
		b.seize("first", 24)
		b.fill(40, 8)
		before := b.content(8)
		for _, n := range []int{24, 10, 8} {
			b.resize(n, 100)
			after := b.content(n)
			if !maps.Equal(before, after) {
				for name, v := range before {
					if after[name] != v {
						t.Errorf("%d partitions: %s is %.200q, was %.200q", n, name, after[name], v)
					}
				}
				t.Fatalf("%d partitions: %d entries, were %d", n, len(after), len(before))
			}
		}
	})
}

// Trap: a run that was paused and continues after a later run would delete what the later run has copied.
func TestPlacementOfAnEarlierRunWritesNothing(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		run := redisx.NewRunner(rdb)
		t.Cleanup(run.Close)
		b := &placed{T: t, rdb: rdb, run: run, space: redisx.NewSpace(redistest.Namespace())}
		b.seize("change", 8)
		b.fill(20, 4)
		st := store.NewReader(run, b.space)
		paused := st.NewPlacement(homes(8), b.tenures, func(int) {})
		b.seize("change", 8)
		before := b.keys(b.space.Pattern())
		for _, step := range []func(context.Context) error{paused.Copy, paused.Remove} {
			if err := step(t.Context()); !errors.Is(err, record.ErrFenced) {
				t.Errorf("%v, want ErrFenced", err)
			}
		}
		if after := b.keys(b.space.Pattern()); !slices.Equal(before, after) {
			t.Errorf("%d keys, were %d", len(after), len(before))
		}
	})
}
