package limiter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redisx"
)

func TestCheckFindsEveryBrokenInvariant(t *testing.T) {
	b, _ := server(t)
	k := func() redisx.Limit { return b.space.Limit(b.limit) }
	add := func(key, member string, score float64) {
		b.must(b.rdb.ZAdd(b.Context(), key, redis.Z{Score: score, Member: member}).Err())
	}
	for want, corrupt := range map[string]func(){
		"waits and holds":                func() { add(k().Holders(), testMember("b").String(), 1) },
		"holds and has timed out":        func() { add(k().Rejected(), "t"+testMember("a").String(), 1) },
		"waits and was cleared":          func() { add(k().Rejected(), "c"+testMember("b").String(), 1) },
		"rejected for an unknown reason": func() { add(k().Rejected(), "q"+testMember("z").String(), 1) },
		"not a member":                   func() { add(k().Holders(), "absent", 1) },
		"the waiter before it":           func() { add(k().Waiters(), testMember("c").String(), b.score(testMember("b").String())) },
		"the last number assigned":       func() { b.must(b.rdb.HSet(b.Context(), k().State(), "seq", 5).Err()) },
		"have entered":                   func() { b.must(b.rdb.HIncrBy(b.Context(), k().State(), "e", 1).Err()) },
		"counter c is":                   func() { b.must(b.rdb.HIncrBy(b.Context(), k().State(), "c", -7).Err()) },
		"name an ancestor":               func() { b.must(b.rdb.HSet(b.Context(), k().State(), "ha", 3).Err()) },
		"field e of the state":           func() { b.must(b.rdb.HSet(b.Context(), k().State(), "e", "many").Err()) },
		"a grant at":                     func() { b.must(b.rdb.RPush(b.Context(), k().Grants(), 5, 4).Err()) },
		"WRONGTYPE":                      func() { b.must(b.rdb.Set(b.Context(), k().Rejected(), "x", 0).Err()) },
	} {
		b.limit = "g-" + fmt.Sprint(len(want)) + strings.Fields(want)[0]
		b.policy(concurrency(1))
		b.enter("a", "b", "c")
		b.check()
		corrupt()
		found := false
		for _, err := range b.limits.Check(t.Context(), b.limit) {
			found = found || strings.Contains(err.Error(), want) && strings.Contains(err.Error(), b.limit)
		}
		if !found {
			t.Errorf("not found: %q", want)
		}
	}
}

func (b *harness) score(member string) float64 {
	b.Helper()
	s, err := b.rdb.ZScore(b.Context(), b.space.Limit(b.limit).Waiters(), member).Result()
	b.must(err)
	return s
}
