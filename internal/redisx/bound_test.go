package redisx_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// bound returns a bound client, and a runner that uses it.
func bound(t *testing.T, rdb redis.UniversalClient) (redis.UniversalClient, *redisx.Runner) {
	t.Helper()
	b, err := redisx.Bound(within(t), rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	run := redisx.NewRunner(b)
	t.Cleanup(run.Close)
	return b, run
}

// Trap: a process continues from its memory although Redis has lost its last writes.
func TestBoundClientRefusesAServerThatWasRestarted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	plain := s.Client(t)
	b, run := bound(t, plain)
	set := redisx.Command("SET", "key", "value")
	if _, err := run.Do(within(t), set); err != nil {
		t.Fatal(err)
	}
	if err := plain.ClientKillByFilter(within(t), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Do(within(t), set); err != nil {
		t.Errorf("after a lost connection: %v", err)
	}
	s.Restart(t)
	if err := plain.Ping(within(t)).Err(); err != nil {
		t.Errorf("the other client: %v", err)
	}
	if _, err := run.Do(within(t), set); !errors.Is(err, redisx.ErrRestarted) {
		t.Errorf("a command after the restart: %v", err)
	}
	if err := b.Ping(within(t)).Err(); !errors.Is(err, redisx.ErrRestarted) {
		t.Errorf("a PING after the restart: %v", err)
	}
}

func TestBoundClientRefusesAReplicaThatTookOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartReplicatedCluster(t, 3)
	plain := c.Client(t, nil)
	_, run := bound(t, plain)
	other := redisx.NewRunner(plain)
	defer other.Close()
	shard := c.Shard(t, "key")
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "key"} { // on every master
		if _, err := run.Do(within(t), redisx.Command("SET", key, "value")); err != nil {
			t.Fatal(err)
		}
	}
	c.Masters[shard].Pause()
	defer c.Masters[shard].Resume()
	c.AwaitElection(t, shard)
	poll.Until(t, time.Minute, "another client finds the new master", func() bool {
		_, err := other.Do(within(t), redisx.Command("SET", "key", "other"))
		return err == nil
	})
	if _, err := run.Do(within(t), redisx.Command("SET", "key", "value")); err == nil {
		t.Error("a command has reached the new master")
	}
	if v, err := other.Do(within(t), redisx.Command("GET", "key")); v != "other" || err != nil {
		t.Errorf("the key is %q, %v", v, err)
	}
}
