package redisx_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

const addLua = `--! keys counter
--! args by
return {'OK', ms(redis.call('INCRBY', counter, by))}`

func TestPendingCallsShareAPipeline(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		add := redisx.NewScript("add", "", addLua, "counter", "by")
		part := redisx.NewSpace(redistest.Namespace()).Part(1)
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[int64]bool)
		const calls = 100 // few enough that miniredis, which interprets scripts, answers within the timeout on a busy machine, too
		for range calls {
			wg.Add(1)
			r.Go(redisx.Call{Script: add, Keys: []string{part.Wakeups()}, Args: []any{1}}, func(v any, err error) {
				defer wg.Done()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[redisx.NewReply(v).Int(1)] = true
			})
		}
		wg.Wait()
		if len(seen) != calls {
			t.Fatalf("%d different replies to %d calls", len(seen), calls)
		}
	})
}

// Trap: after a restart or failover of Redis, EVALSHA, the only command that is sent in a pipeline, is answered NOSCRIPT.
func TestScriptsAreLoadedAgainAfterNOSCRIPT(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		add := redisx.NewScript("add", "", addLua, "counter", "by")
		key := redisx.NewSpace(redistest.Namespace()).Part(1).Wakeups()
		for i := range 5 {
			if err := rdb.ScriptFlush(within(t)).Err(); err != nil {
				t.Fatal(err)
			}
			v, err := r.Do(within(t), redisx.Call{Script: add, Keys: []string{key}, Args: []any{1}})
			if err != nil {
				t.Fatal(err)
			}
			if got := redisx.NewReply(v).Int(1); got != int64(i+1) {
				t.Fatalf("reply %d to call %d: a call was executed twice or not at all", got, i+1)
			}
		}
	})
}

func TestScriptErrorAffectsOnlyItsCall(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		add, key := redisx.NewScript("add", "", addLua, "counter", "by"), redisx.NewSpace(redistest.Namespace()).Part(1)
		if err := rdb.Set(within(t), key.Stalled(), "no number", 0).Err(); err != nil {
			t.Fatal(err)
		}
		bad := make(chan error, 1)
		r.Go(redisx.Call{Script: add, Keys: []string{key.Stalled()}, Args: []any{1}}, func(_ any, err error) { bad <- err })
		if _, err := r.Do(within(t), redisx.Call{Script: add, Keys: []string{key.Wakeups()}, Args: []any{1}}); err != nil {
			t.Errorf("the other call: %v", err)
		}
		if err := <-bad; err == nil {
			t.Error("no error from a script that fails")
		}
	})
}

// The client has a type for this error, and loses its position in the replies if the error is an element of an array.
func TestJoinedCallsOutOfMemoryDoNotShiftLaterReplies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := newServerRunner(t, s)
	s.OutOfMemory(t)
	for range 5 {
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Add(2)
			key := redisx.NewSpace(redistest.Namespace()).Part(i).Wakeups()
			r.Go(redisx.Call{Script: add, Keys: []string{key}, Args: []any{1}, Join: true}, func(v any, err error) {
				defer wg.Done()
				if err == nil || !strings.HasPrefix(errors.Unwrap(err).Error(), "OOM") || redisx.Refused(err) {
					t.Errorf("%v, %v", v, err)
				}
			})
			r.Go(redisx.Command("OBJECT", "HELP"), func(_ any, _ error) { wg.Done() })
		}
		wg.Wait()
		for i := range 8 {
			if v, err := r.Do(within(t), redisx.Command("ECHO", strconv.Itoa(i))); err != nil || v != strconv.Itoa(i) {
				t.Fatalf("ECHO %d: %v, %v", i, v, err)
			}
		}
	}
}

func TestJoinedCallsAreCarriedOutAsIfEachWereAlone(t *testing.T) {
	const calls = 250 // few enough for miniredis, as above
	s := redisx.NewScript("join", "", strings.Replace(joinLua, "local out", "redis.call('INCR', first) local out", 1),
		"first | left=pair* right*", "a b# unused | word* pair(name value)* more*")
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		part := redisx.NewSpace(redistest.Namespace()).Part
		if err := rdb.LPush(within(t), part(0).Stalled(), "no number").Err(); err != nil {
			t.Fatal(err)
		}
		check := func(r *redisx.Runner) {
			t.Helper()
			defer r.Close()
			var wg sync.WaitGroup
			_ = rdb.Do(within(t), "CLIENT", "PAUSE", 60_000, "WRITE").Err() // unknown to miniredis; so that the calls are pending together
			for i := range calls {
				p, n := part(i%8), i%3
				first := p.Wakeups()
				if i%100 == 0 {
					first = p.Stalled() // the key of partition 0 has another type
				}
				c := redisx.Call{Script: s, Keys: []string{first}, Args: []any{i, n, "", 1, n}, Join: true}
				want := fmt.Sprintf("%s|%d|%d|w%d", first, i, n+1, i)
				c.Args = append(c.Args, fmt.Sprint("w", i))
				for k := range n {
					c.Keys, c.Args = append(c.Keys, p.Inbox(fmt.Sprint(k))), append(c.Args, k, i)
					want += fmt.Sprintf("|%s %d %d", p.Inbox(fmt.Sprint(k)), k, i)
				}
				c.Keys, c.Args = append(c.Keys, p.Early()), append(c.Args, "m", i)
				want += fmt.Sprintf("|%s|m #more %d", p.Early(), i)
				wg.Add(1)
				r.Go(c, func(v any, err error) {
					defer wg.Done()
					if bad := i%200 == 0; bad != (err != nil) || bad != redisx.Refused(err) {
						t.Errorf("call %d: %v", i, err)
					}
					if rep := redisx.NewReply([]any{v}); err == nil && strings.Join(rep.Strs(0), "|") != want {
						t.Errorf("call %d: %v, want %s", i, v, want)
					}
				})
			}
			_ = rdb.Do(within(t), "CLIENT", "UNPAUSE").Err()
			wg.Wait()
		}
		_ = rdb.ConfigResetStat(within(t)) // unknown to miniredis, which has no statistics
		check(redisx.NewRunner(rdb))
		if info, err := rdb.Info(within(t), "commandstats").Result(); err == nil && strings.Contains(info, "cmdstat_evalsha") {
			_, stats, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
			text, _, _ := strings.Cut(stats, ",")
			if n, err := strconv.Atoi(text); err != nil || n > calls/5 {
				t.Errorf("%d calls were %s scripts", calls, text)
			}
		}
		if cluster, ok := rdb.(*redis.ClusterClient); ok { // refuses keys of two slots, like a proxy in front of several nodes
			proxy := redis.NewClient(&redis.Options{Addr: cluster.Options().Addrs[0]})
			defer func() { _ = proxy.Close() }()
			check(redisx.NewRunner(proxy))
		}
	})
}

// Trap: before Redis 7, the text of an error within a reply is written unescaped, and a line break in it ends the reply.
func TestErrorOfJoinedCallIsOneLine(t *testing.T) {
	s := redisx.NewScript("fail", "", "--! keys key\n--! args text\nredis.call('GET', key) error(text, 0)", "key", "text")
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Add(1)
			c := redisx.Call{Script: s, Keys: []string{redisx.NewSpace(redistest.Namespace()).Part(1).Wakeups()}, Args: []any{fmt.Sprintf("-OOM two\r\nlines %d\r\n", i)}, Join: true}
			r.Go(c, func(_ any, err error) {
				defer wg.Done()
				if err == nil || !strings.Contains(err.Error(), "-OOM two") || !strings.Contains(err.Error(), fmt.Sprintf("lines %d", i)) {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestEveryCallIsAnsweredWhenTheRunnerCloses(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for range 20 {
		r := redisx.NewRunner(rdb)
		var wg sync.WaitGroup
		for range 200 {
			wg.Add(1)
			go r.Go(redisx.Command("GET", "x"), func(_ any, err error) {
				if err != nil && !errors.Is(err, redisx.ErrClosed) {
					t.Error(err)
				}
				wg.Done()
			})
		}
		r.Close()
		wg.Wait()
	}
}

// Trap: numbers lose digits when Lua converts them to text. miniredis hides this, so the test also runs on a real server.
func TestLuaNumbersKeepAllDigits(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		s := redisx.NewScript("now", "", `--! keys key
redis.call('SET', key, ms(now())) return {'OK', redis.call('GET', key), ms(9007199254740991)}`, "key", "")
		v, err := r.Do(within(t), redisx.Call{Script: s, Keys: []string{redisx.NewSpace(redistest.Namespace()).Part(0).Owner()}})
		if err != nil {
			t.Fatal(err)
		}
		got := redisx.NewReply(v)
		if ms := got.Int(1); ms < 1_000_000_000_000 || got.Err() != nil || got.Str(2) != "9007199254740991" {
			t.Fatalf("now is %d, 2^53-1 is %s, %v", ms, got.Str(2), got.Err())
		}
	})
}

func TestKeysRoundTrip(t *testing.T) {
	p := redisx.NewSpace("ns").Part(7)
	for key, want := range map[string]redisx.ParsedKey{
		p.Owner():            {Kind: "p"},
		p.Limits():           {Kind: "limits"},
		p.Instance("a:b"):    {Kind: "i", Instance: "a:b"},
		p.Inbox("a"):         {Kind: "in", Instance: "a"},
		p.History("a:1", 2):  {Kind: "h", Instance: "a:1", Execution: 2},
		p.Lease("a:1", 2, 3): {Kind: "l", Instance: "a:1", Execution: 2, Activity: 3},
	} {
		if got, ok := p.Parse(key); !ok || got != want {
			t.Errorf("%s: %+v, %v", key, got, ok)
		}
		if part, ok := redisx.NewSpace("ns").PartOf(key); !ok || part != 7 {
			t.Errorf("%s: partition %d, %v", key, part, ok)
		}
	}
	for _, key := range []string{p.Prefix() + "x", p.Prefix() + "h:a", p.Prefix() + "l:a:1:x", "pawl:{other.7}:p", p.Prefix() + "zzz:1"} {
		if got, ok := p.Parse(key); ok {
			t.Errorf("%s is parsed as %+v", key, got)
		}
	}
}

// Trap: a namespace that ends in ".g" has partitions with keys like those of limits, and a limit may be named "7".
func TestLimitKeysBelongToNoPartition(t *testing.T) {
	space := redisx.NewSpace("ns")
	for _, name := range []string{"charge-card", "7", "charge-card/7", "a/}:", "a/b:c"} {
		g := space.Limit(name)
		for _, key := range []string{g.Waiters(), g.Holders(), g.Rejected(), g.Grants(), g.State()} {
			if part, ok := space.PartOf(key); ok {
				t.Errorf("%s is parsed as a key of partition %d", key, part)
			}
			if !strings.HasPrefix(key, "pawl:{ns.l."+name+"}:") {
				t.Errorf("%s has another hash tag", key)
			}
		}
	}
}

func TestEvictingRedisIsRefused(t *testing.T) {
	s := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	err := redisx.CheckPolicy(within(t), s.Client(t), nil)
	var ev *redisx.EvictionError
	if !errors.As(err, &ev) || ev.Policy != "allkeys-lru" {
		t.Fatal(err)
	}
	if fmt.Sprint(err) == "" {
		t.Fatal("the error has no text")
	}
}
