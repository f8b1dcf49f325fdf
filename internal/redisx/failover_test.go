package redisx_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// shardKeys returns one key of each shard.
func shardKeys(t *testing.T, c *redistest.ReplicatedCluster) []string {
	t.Helper()
	keys := make([]string, len(c.Masters))
	for p, left := 0, len(keys); left > 0; p++ {
		key := redisx.NewSpace("t").Part(p).Wakeups()
		if i := c.Shard(t, key); keys[i] == "" {
			keys[i], left = key, left-1
		}
	}
	return keys
}

// users are cluster options as users of the library configure them.
var users = map[string]func(*redis.ClusterOptions){
	"defaults":             func(*redis.ClusterOptions) {},
	"long timeouts":        func(o *redis.ClusterOptions) { o.ReadTimeout, o.DialTimeout = time.Minute, time.Minute },
	"retries":              func(o *redis.ClusterOptions) { o.MaxRetries, o.MaxRedirects = 5, 8 },
	"context timeouts":     func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true },
	"replicas may be read": func(o *redis.ClusterOptions) { o.RouteRandomly = true },
}

// until repeats a call until it succeeds, and returns the time.
func until(t *testing.T, r *redisx.Runner, c redisx.Call) time.Time {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for {
		_, err := r.Do(ctx, c)
		switch {
		case err == nil:
			return time.Now()
		case ctx.Err() != nil:
			t.Error(err)
			return time.Now()
		}
	}
}

// failover is a cluster whose first shard fails over, with a runner that uses a user's client.
type failover struct {
	*redistest.ReplicatedCluster

	run  *redisx.Runner
	keys []string // one key of each shard
}

func newFailover(t *testing.T, with func(*redis.ClusterOptions)) *failover {
	t.Helper()
	c := redistest.StartReplicatedCluster(t, 3)
	f := &failover{ReplicatedCluster: c, run: redisx.NewRunner(c.Client(t, with)), keys: shardKeys(t, c)}
	t.Cleanup(f.run.Close)
	for i := range f.keys {
		until(t, f.run, f.call(i))
	}
	return f
}

var add = redisx.NewScript("add", "", addLua, "counter", "by")

func (f *failover) call(shard int) redisx.Call {
	return redisx.Call{Script: add, Keys: []string{f.keys[shard]}, Args: []any{1}}
}

// first waits for the election, and returns the time from it to the first successful call to the shard.
func (f *failover) first(t *testing.T) time.Duration {
	t.Helper()
	worked := make(chan time.Time, 1)
	go func() { worked <- until(t, f.run, f.call(0)) }()
	elected := f.AwaitElection(t, 0)
	after := (<-worked).Sub(elected)
	t.Logf("the first call succeeded %v after the election", after.Round(time.Millisecond))
	return after
}

// Trap: the slot map of the client is not reloaded when the master of a slot is gone.
func TestShardResumesWhenReplicaIsElected(t *testing.T) {
	for name, with := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailover(t, with)
			f.Masters[0].Kill()
			if after := f.first(t); after > 20*time.Second { // the client itself reloads its slot map once a minute
				t.Errorf("the first call succeeded %v after the election", after)
			}
		})
	}
}

// A hanging master costs one call timeout, regardless of the timeouts and retries of the client, and does not delay calls to other
// shards.
func TestHangingMasterCostsOneCallTimeout(t *testing.T) {
	for name, with := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailover(t, with)
			f.Masters[0].Pause()
			defer f.Masters[0].Resume()
			begin := time.Now()
			answered := make(chan time.Duration, 1)
			f.run.Go(f.call(0), func(any, error) { answered <- time.Since(begin) })
			for shard := 1; shard <= 2; shard++ {
				if _, err := f.run.Do(within(t), f.call(shard)); err != nil {
					t.Errorf("shard %d: %v", shard, err)
				}
			}
			if len(answered) > 0 {
				t.Error("the other shards waited for the one that hangs")
			}
			if after := f.first(t); after > 20*time.Second {
				t.Errorf("the first call succeeded %v after the election", after)
			}
			if took := <-answered; took > 30*time.Second { // the longest timeout of the clients is a minute
				t.Errorf("the call to the master that hangs was answered after %v", took)
			}
		})
	}
}
