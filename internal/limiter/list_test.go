package limiter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/history"
)

// onList returns when the next sweep of the limit is due, ms from now; ok is false if it is not on the list of its partition.
func (b *bench) onList() (in int64, ok bool) {
	b.Helper()
	at, err := b.rdb.ZScore(context.Background(), b.space.Part(partition(b.gate)).Limits(), b.gate).Result()
	if errors.Is(err, redis.Nil) {
		return 0, false
	}
	b.must(err)
	return int64(at) - b.now(), true
}

func (b *bench) now() int64 {
	b.Helper()
	t, err := b.rdb.Time(context.Background()).Result()
	b.must(err)
	return t.UnixMilli()
}

func (b *bench) relist(in time.Duration) {
	b.Helper()
	_, err := redistest.Answer(func(done func(struct{}, error)) {
		b.gates.Reschedule(b.gate, in, func(err error) { done(struct{}{}, err) })
	})
	b.must(err)
}

func (b *bench) unlist() {
	b.Helper()
	_, err := redistest.Answer(func(done func(struct{}, error)) {
		b.gates.Unschedule(b.gate, func(err error) { done(struct{}{}, err) })
	})
	b.must(err)
}

// used makes the limit one that was used so long ago. After a rest a limit is listed a second time, behind its first call.
func (b *bench) used(ago int64) {
	b.Helper()
	b.must(b.rdb.HSet(context.Background(), b.space.Limit(b.gate).State(), "u", b.now()-ago).Err())
}

func TestEntrySchedulesLimitInItsPartition(t *testing.T) { each(t, listedCases()) }

func listedCases() map[string]func(b *bench) {
	put := func(b *bench, at int64) {
		b.Helper()
		b.must(b.rdb.ZAdd(b.Context(), b.space.Part(partition(b.gate)).Limits(), redis.Z{Score: float64(at), Member: b.gate}).Err())
	}
	return map[string]func(b *bench){
		"to be swept now, and not again for three seconds": func(b *bench) {
			b.used(0)
			b.enter("a")
			if in, ok := b.onList(); !ok || in > 0 {
				b.Errorf("due in %d ms (listed: %v)", in, ok)
			}
			all, err := b.gates.Scheduled(b.Context(), partition(b.gate))
			if err != nil || !slices.Equal(all, []string{b.gate}) {
				b.Errorf("%v, %v", all, err)
			}
			put(b, b.now()+60_000) // as its sweep does
			b.enter("b")
			b.enter("c")
			if in, ok := b.onList(); !ok || in < 30_000 {
				b.Errorf("brought forward: %d ms (listed: %v)", in, ok)
			}
			other := limiter.New(b.run, b.space, partition) // another process
			_, err = redistest.Answer(func(done func(limiter.AdmitReply, error)) { other.Admit(limiter.AdmitRequest{Limit: b.gate}, done) })
			b.must(err)
			if in, ok := b.onList(); !ok || in > 0 {
				b.Errorf("another process does not list it: %d ms (listed: %v)", in, ok)
			}
		},
		"before it enters: without its place in the list no caller enters": func(b *bench) {
			key := b.space.Part(partition(b.gate)).Limits()
			b.must(b.rdb.Set(b.Context(), key, "no list", 0).Err())
			_, err := redistest.Answer(func(done func(limiter.AdmitReply, error)) {
				b.gates.Admit(limiter.AdmitRequest{Limit: b.gate, Enter: []limiter.Entry{{Member: who("a")}}}, done)
			})
			if err == nil || !strings.Contains(err.Error(), b.gate) {
				b.Errorf("no error that names the limit: %v", err)
			}
			if b.holders() != 0 {
				b.Error("it has entered")
			}
			b.must(b.rdb.Del(b.Context(), key).Err())
			b.want("later", formatVerdicts(b.enter("a")), "admitted")
		},
		// Trap: a sweep that found the limit idle takes it off the list just after another caller has entered.
		"and again behind the first call after a rest": func(b *bench) {
			b.used(0)
			b.enter("a")
			for _, rest := range []int64{9_000, 11_000} {
				put(b, b.now()+60_000)
				b.used(rest)
				b.enter("b") // which relies on the list as it was
				for deadline := time.Now().Add(10 * time.Second); rest > 10_000; {
					if in, ok := b.onList(); ok && in <= 0 {
						break
					}
					if time.Now().After(deadline) {
						b.Fatal("not listed again")
					}
				}
			}
		},
		// Trap: the first input with a key makes the action's own limit known between the listing and the first call of one without.
		"and again behind the first call of a limit without former callers": func(b *bench) {
			b.policy(concurrency(1))
			_, err := redistest.Answer(func(done func(limiter.AdmitReply, error)) { b.gates.Admit(limiter.AdmitRequest{Limit: b.gate}, done) })
			b.must(err)
			put(b, b.now()+1000) // as its sweep does, and finds nothing
			b.unlist()
			_, err = redistest.Answer(func(done func(limiter.AdmitReply, error)) {
				b.gates.Admit(limiter.AdmitRequest{Limit: limit.Name(b.gate, "acme"), InForce: b.force, Enter: []limiter.Entry{{Member: who("keyed")}}}, done)
			})
			b.must(err)
			poll.Until(b, time.Minute, "the action is known", func() bool { return b.rdb.Exists(b.Context(), b.space.Limit(b.gate).State()).Val() == 1 })
			b.want("without a key", formatVerdicts(b.enter("a")), "admitted")
			poll.Until(b, 3*time.Second, "it is on the list", func() bool { _, ok := b.onList(); return ok })
		},
		// Trap: a leave that comes late, of a member that has left before, puts the limit on no list.
		"also if a caller that was no member has left in between": func(b *bench) {
			b.used(0)
			b.enter("a")
			b.leave("a")
			put(b, b.now()+60_000)
			b.used(9_000)
			b.disown(0, "a")
			b.enter("b")
			for deadline := time.Now().Add(10 * time.Second); ; {
				if in, ok := b.onList(); ok && in <= 0 {
					break
				}
				if time.Now().After(deadline) {
					b.Fatal("not listed again")
				}
			}
		},
		"and a visit that ends does not put it off, nor take it off, if it is due again": func(b *bench) {
			put(b, b.now()-1)
			b.relist(time.Minute)
			if in, ok := b.onList(); !ok || in > 0 {
				b.Errorf("put off: %d ms (listed: %v)", in, ok)
			}
			b.unlist()
			if _, ok := b.onList(); !ok {
				b.Error("taken off")
			}
			put(b, b.now()+2000)
			b.relist(time.Minute)
			if in, ok := b.onList(); !ok || in < 30_000 {
				b.Errorf("not put off: %d ms (listed: %v)", in, ok)
			}
			b.unlist()
			b.unlist()
			if in, ok := b.onList(); ok {
				b.Errorf("still on the list, in %d ms", in)
			}
		},
		"and by a request to clear it, so that the notices are sent": func(b *bench) {
			b.policy(concurrency(1))
			b.used(0)
			b.enter("a", "b")
			put(b, b.now()+60_000)
			_, err := b.gates.Clear(b.Context(), b.gate)
			b.must(err)
			if in, ok := b.onList(); !ok || in > 0 {
				b.Errorf("due in %d ms (listed: %v)", in, ok)
			}
		},
	}
}

func TestFindOrphansReportsTicketsWithoutLeaseOrInstance(t *testing.T) { each(t, wantedCases()) }

func wantedCases() map[string]func(b *bench) {
	born := history.Position{Seq: 7, Time: 1_790_000_000_123_456_789}
	member := func(instance, ticket, place string) limiter.Member {
		return limiter.Member{Ticket: ticket, Instance: instance, Place: place}
	}
	unwanted := func(b *bench, ms ...limiter.Member) ([]limiter.Member, error) {
		return redistest.Answer(func(done func([]limiter.Member, error)) { b.gates.FindOrphans(ms, done) })
	}
	return map[string]func(b *bench){
		"and of that ticket, that incarnation, and running": func(b *bench) {
			set := func(key string, fields ...any) {
				b.must(b.rdb.HSet(b.Context(), key, fields...).Err())
			}
			part := func(instance string) interface {
				Lease(id string, execution, activity uint64) string
				Instance(id string) string
			} {
				return b.space.Part(partition(instance))
			}
			set(part("a").Lease("a", 1, 5), "e", "effect")
			set(part("b").Instance("b"), "orig", "7.1790000000123456789", "status", "running", "r:kept", "1")
			set(part("c").Instance("c"), "orig", "7.1790000000123456789", "status", "completed", "ended", "1790000000999")
			wanted := []limiter.Member{
				member("a", "effect", limit.ActivityPlace(1, 5)), member("b", "t", limit.StartPlace(born)), member("b", "kept", limiter.RetainedPlace),
			}
			not := []limiter.Member{
				member("a", "other effect", limit.ActivityPlace(1, 5)), member("a", "effect", limit.ActivityPlace(2, 5)), member("absent", "effect", limit.ActivityPlace(1, 5)),
				member("b", "t", limit.StartPlace(history.Position{Seq: 8, Time: born.Time})), member("c", "t", limit.StartPlace(born)),
				member("absent", "t", limit.StartPlace(born)), member("a", "effect", limiter.RetainedPlace), member("b", "not kept", limiter.RetainedPlace), member("c", "effect", limiter.RetainedPlace), member("a", "effect", "garbage"), member("a", "effect", "1.x"),
			}
			got, err := unwanted(b, append(append([]limiter.Member{}, wanted...), not...)...)
			if err != nil || !slices.Equal(got, not) {
				b.Errorf("%v, %v", got, err)
			}
			if got, err := unwanted(b); err != nil || len(got) != 0 {
				b.Errorf("without members: %v, %v", got, err)
			}
		},
		"for thousands, of every partition": func(b *bench) {
			var ms, want []limiter.Member
			for i := range 3_000 {
				id := strings.Repeat("x", i%7) + string(rune('a'+i%26))
				m := member(id, "effect", limit.ActivityPlace(1, uint64(i)))
				ms = append(ms, m)
				if i%3 == 0 {
					want = append(want, m)
					continue
				}
				b.must(b.rdb.HSet(b.Context(), b.space.Part(partition(id)).Lease(id, 1, uint64(i)), "e", "effect").Err())
			}
			got, err := unwanted(b, ms...)
			if err != nil || !slices.Equal(got, want) {
				b.Errorf("%d of %d, %v", len(got), len(want), err)
			}
		},
		"a start whose instance is pending still: its grant was not taken up": func(b *bench) {
			m := member("p", "start", limit.StartPlace(born))
			key := b.space.Part(partition("p")).Instance("p")
			b.must(b.rdb.HSet(b.Context(), key, "orig", strings.TrimPrefix(limit.StartPlace(born), "o"), "status", "pending").Err())
			if got, err := unwanted(b, m); err != nil || len(got) != 1 {
				b.Errorf("pending: %v, %v", got, err)
			}
			b.must(b.rdb.HSet(b.Context(), key, "status", "running").Err())
			if got, err := unwanted(b, m); err != nil || len(got) != 0 {
				b.Errorf("running: %v, %v", got, err)
			}
		},
		"and members that cannot be checked are an error, beside the result for the others": func(b *bench) {
			b.must(b.rdb.Set(b.Context(), b.space.Part(partition("a")).Instance("a"), "no record", 0).Err())
			kept := member("b", "t", limiter.RetainedPlace)
			got, err := unwanted(b, member("a", "t", limit.StartPlace(born)), kept)
			if err == nil || !slices.Equal(got, []limiter.Member{kept}) {
				b.Errorf("%v, %v", got, err)
			}
		},
	}
}
