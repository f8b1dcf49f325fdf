package partition_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// An actor that fails at once (for example because one of its keys has a foreign type) must not make the
// keeper acquire, release and announce the partition as fast as Redis answers.
func TestFailedTenureIsNotReacquiredAtOnce(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	var runs, released atomic.Int64
	var k *partition.Keeper
	k = partition.NewKeeper(partition.Config{
		Redis: rdb, Space: redisx.NewSpace("spin"), Partitions: 1, Member: "m", TTL: 2 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Run: func(context.Context, *partition.Tenure) error {
			runs.Add(1)
			return errors.New("cannot begin")
		},
		Released: func(int) { released.Add(1); k.Nudge() },
	})
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := k.Start(ctx); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, time.Minute, "the first tenure", func() bool { return runs.Load() > 0 })
	first := time.Now()
	second := time.NewTimer(time.Second)
	<-second.C
	if n, took := runs.Load(), time.Since(first); float64(n) > 5*took.Seconds() {
		t.Errorf("%d tenures in %v (renewed every 400 ms)", n, took)
	}
	begin := time.Now()
	if err := k.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
	t.Logf("%d tenures, %d notices", runs.Load(), released.Load())
}

// One of three masters is down, the one with the members. Partitions on the other two masters are still acquired.
func TestLostPartitionIsReacquiredWithoutMembers(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	f := newFleet(t, rdb)
	f.member("a", stallTTL)
	f.until("a owns all", func() bool { return len(f.owners()) == parts })
	if err := rdb.Set(f.ctx(), f.ns.Members(), "not a sorted set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := f.tenure(1)
	if err := rdb.HSet(f.ctx(), f.ns.Part(1).Owner(), "owner", "another", "until", "1").Err(); err != nil {
		t.Fatal(err)
	}
	f.until("a has it again", func() bool { now := f.tenure(1); return now != nil && now != before })
	if err := rdb.Del(f.ctx(), f.ns.Members()).Err(); err != nil {
		t.Fatal(err)
	}
}
