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

// wakeupIn returns the time until the wakeup of the limit, ms; ok is false if it has none.
func (b *harness) wakeupIn() (in int64, ok bool) {
	b.Helper()
	at, err := b.rdb.ZScore(context.Background(), b.space.Part(partition(b.limit)).Limits(), b.limit).Result()
	if errors.Is(err, redis.Nil) {
		return 0, false
	}
	b.must(err)
	return int64(at) - b.now(), true
}

func (b *harness) now() int64 {
	b.Helper()
	t, err := b.rdb.Time(context.Background()).Result()
	b.must(err)
	return t.UnixMilli()
}

func (b *harness) reschedule(in time.Duration) {
	b.Helper()
	_, err := redistest.Answer(func(done func(struct{}, error)) {
		b.limits.Reschedule(b.limit, in, func(err error) { done(struct{}{}, err) })
	})
	b.must(err)
}

func (b *harness) unschedule() {
	b.Helper()
	_, err := redistest.Answer(func(done func(struct{}, error)) {
		b.limits.Unschedule(b.limit, func(err error) { done(struct{}{}, err) })
	})
	b.must(err)
}

// setLastUse sets the last use of the limit to ago ms before now. The first request after a long idle time sets the wakeup a second time.
func (b *harness) setLastUse(ago int64) {
	b.Helper()
	b.must(b.rdb.HSet(context.Background(), b.space.Limit(b.limit).State(), "u", b.now()-ago).Err())
}

func TestEntrySchedulesLimitInItsPartition(t *testing.T) { each(t, wakeupCases()) }

func wakeupCases() map[string]func(b *harness) {
	put := func(b *harness, at int64) {
		b.Helper()
		b.must(b.rdb.ZAdd(b.Context(), b.space.Part(partition(b.limit)).Limits(), redis.Z{Score: float64(at), Member: b.limit}).Err())
	}
	return map[string]func(b *harness){
		"an entry schedules the limit now, and not again for three seconds": func(b *harness) {
			b.setLastUse(0)
			begun := time.Now()
			b.enter("a")
			if in, ok := b.wakeupIn(); !ok || in > 0 {
				b.Errorf("due in %d ms (scheduled: %v)", in, ok)
			}
			all, err := b.limits.Scheduled(b.Context(), partition(b.limit))
			if err != nil || !slices.Equal(all, []string{b.limit}) {
				b.Errorf("%v, %v", all, err)
			}
			put(b, b.now()+60_000) // as its sweep does
			b.enter("b")
			b.enter("c")
			if in, ok := b.wakeupIn(); (!ok || in < 30_000) && time.Since(begun) < 3*time.Second {
				b.Errorf("advanced: %d ms (scheduled: %v)", in, ok)
			}
			other := limiter.New(b.run, b.space, partition) // another process
			_, err = redistest.Answer(func(done func(limit.AdmitReply, error)) { other.Admit(limit.AdmitRequest{Limit: b.limit}, done) })
			b.must(err)
			if in, ok := b.wakeupIn(); !ok || in > 0 {
				b.Errorf("not scheduled by another process: %d ms (scheduled: %v)", in, ok)
			}
		},
		"without the wakeup no caller enters": func(b *harness) {
			key := b.space.Part(partition(b.limit)).Limits()
			b.must(b.rdb.Set(b.Context(), key, "not a sorted set", 0).Err())
			_, err := redistest.Answer(func(done func(limit.AdmitReply, error)) {
				b.limits.Admit(limit.AdmitRequest{Limit: b.limit, Enter: []limit.Entry{{Member: testMember("a")}}}, done)
			})
			if err == nil || !strings.Contains(err.Error(), b.limit) {
				b.Errorf("no error that names the limit: %v", err)
			}
			if b.holders() != 0 {
				b.Error("it has entered")
			}
			b.must(b.rdb.Del(b.Context(), key).Err())
			b.want("later", formatVerdicts(b.enter("a")), "admitted")
		},
		// Trap: a sweep that found the limit idle removes its wakeup just after another caller has entered.
		"the first call after an idle time schedules it again": func(b *harness) {
			b.setLastUse(0)
			b.enter("a")
			for _, idle := range []int64{9_000, 11_000} {
				put(b, b.now()+60_000)
				b.setLastUse(idle)
				b.enter("b") // relies on the wakeup that was set before
				for deadline := time.Now().Add(time.Minute); idle > 10_000; {
					if in, ok := b.wakeupIn(); ok && in <= 0 {
						break
					}
					if time.Now().After(deadline) {
						b.Fatal("not scheduled again")
					}
				}
			}
		},
		// Trap: the first input with a key registers the limit of the action itself between the wakeup and the first call of an input
		// without a key.
		"the first call of a limit that was only registered schedules it again": func(b *harness) {
			b.policy(concurrency(1))
			_, err := redistest.Answer(func(done func(limit.AdmitReply, error)) { b.limits.Admit(limit.AdmitRequest{Limit: b.limit}, done) })
			b.must(err)
			put(b, b.now()+1000) // as a sweep does, which finds nothing
			b.unschedule()
			_, err = redistest.Answer(func(done func(limit.AdmitReply, error)) {
				b.limits.Admit(limit.AdmitRequest{Limit: limit.Name(b.limit, "acme"), InForce: b.force, Enter: []limit.Entry{{Member: testMember("keyed")}}}, done)
			})
			b.must(err)
			poll.Until(b, time.Minute, "the action is registered", func() bool { return b.rdb.Exists(b.Context(), b.space.Limit(b.limit).State()).Val() == 1 })
			b.want("without a key", formatVerdicts(b.enter("a")), "admitted")
			poll.Until(b, time.Minute, "it is scheduled", func() bool { _, ok := b.wakeupIn(); return ok })
		},
		// Trap: a late leave, of a member that has left before, sets no wakeup.
		"an entry after a late leave schedules it again": func(b *harness) {
			b.setLastUse(0)
			b.enter("a")
			b.leave("a")
			put(b, b.now()+60_000)
			b.setLastUse(9_000)
			b.releaseOrphans(0, "a")
			b.enter("b")
			for deadline := time.Now().Add(time.Minute); ; {
				if in, ok := b.wakeupIn(); ok && in <= 0 {
					break
				}
				if time.Now().After(deadline) {
					b.Fatal("not scheduled again")
				}
			}
		},
		"a finished sweep neither postpones nor removes a wakeup that is due again": func(b *harness) {
			put(b, b.now()-1)
			b.reschedule(time.Minute)
			if in, ok := b.wakeupIn(); !ok || in > 0 {
				b.Errorf("postponed: %d ms (scheduled: %v)", in, ok)
			}
			b.unschedule()
			if _, ok := b.wakeupIn(); !ok {
				b.Error("removed")
			}
			put(b, b.now()+2000)
			b.reschedule(time.Minute)
			if in, ok := b.wakeupIn(); !ok || in < 30_000 {
				b.Errorf("not postponed: %d ms (scheduled: %v)", in, ok)
			}
			b.unschedule()
			b.unschedule()
			if in, ok := b.wakeupIn(); ok {
				b.Errorf("still scheduled, in %d ms", in)
			}
		},
		"a clear schedules it, so that the notices are sent": func(b *harness) {
			b.policy(concurrency(1))
			b.setLastUse(0)
			b.enter("a", "b")
			put(b, b.now()+60_000)
			_, err := b.limits.Clear(b.Context(), b.limit)
			b.must(err)
			if in, ok := b.wakeupIn(); !ok || in > 0 {
				b.Errorf("due in %d ms (scheduled: %v)", in, ok)
			}
		},
	}
}

func TestFindOrphansReportsTicketsWithoutLeaseOrInstance(t *testing.T) { each(t, orphanCases()) }

func orphanCases() map[string]func(b *harness) {
	origin := history.Position{Seq: 7, Time: 1_790_000_000_123_456_789}
	member := func(instance, ticket, place string) limit.Member {
		return limit.Member{Ticket: ticket, Instance: instance, Place: place}
	}
	findOrphans := func(b *harness, ms ...limit.Member) ([]limit.Member, error) {
		return redistest.Answer(func(done func([]limit.Member, error)) { b.limits.FindOrphans(ms, done) })
	}
	return map[string]func(b *harness){
		"ticket, incarnation and running status must match": func(b *harness) {
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
			required := []limit.Member{
				member("a", "effect", limit.ActivityPlace(1, 5)), member("b", "t", limit.StartPlace(origin)), member("b", "kept", limit.RetainedPlace),
			}
			orphans := []limit.Member{
				member("a", "other effect", limit.ActivityPlace(1, 5)), member("a", "effect", limit.ActivityPlace(2, 5)), member("absent", "effect", limit.ActivityPlace(1, 5)),
				member("b", "t", limit.StartPlace(history.Position{Seq: 8, Time: origin.Time})), member("c", "t", limit.StartPlace(origin)),
				member("absent", "t", limit.StartPlace(origin)), member("a", "effect", limit.RetainedPlace), member("b", "not kept", limit.RetainedPlace), member("c", "effect", limit.RetainedPlace), member("a", "effect", "garbage"), member("a", "effect", "1.x"),
			}
			got, err := findOrphans(b, slices.Concat(required, orphans)...)
			if err != nil || !slices.Equal(got, orphans) {
				b.Errorf("%v, %v", got, err)
			}
			if got, err := findOrphans(b); err != nil || len(got) != 0 {
				b.Errorf("without members: %v, %v", got, err)
			}
		},
		"thousands of members of every partition": func(b *harness) {
			var ms, want []limit.Member
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
			got, err := findOrphans(b, ms...)
			if err != nil || !slices.Equal(got, want) {
				b.Errorf("%d of %d, %v", len(got), len(want), err)
			}
		},
		"the start of an instance that is still pending is reported": func(b *harness) {
			m := member("p", "start", limit.StartPlace(origin))
			key := b.space.Part(partition("p")).Instance("p")
			b.must(b.rdb.HSet(b.Context(), key, "orig", strings.TrimPrefix(limit.StartPlace(origin), "o"), "status", "pending").Err())
			if got, err := findOrphans(b, m); err != nil || len(got) != 1 {
				b.Errorf("pending: %v, %v", got, err)
			}
			b.must(b.rdb.HSet(b.Context(), key, "status", "running").Err())
			if got, err := findOrphans(b, m); err != nil || len(got) != 0 {
				b.Errorf("running: %v, %v", got, err)
			}
		},
		"members that cannot be checked are an error, and the others have their result": func(b *harness) {
			b.must(b.rdb.Set(b.Context(), b.space.Part(partition("a")).Instance("a"), "no record", 0).Err())
			kept := member("b", "t", limit.RetainedPlace)
			got, err := findOrphans(b, member("a", "t", limit.StartPlace(origin)), kept)
			if err == nil || !slices.Equal(got, []limit.Member{kept}) {
				b.Errorf("%v, %v", got, err)
			}
		},
	}
}
