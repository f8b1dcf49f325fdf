package partition_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/partition"
)

// An actor that can not even begin (one of its keys is of a foreign type, say) must not make the
// keeper acquire, release and tell everybody as fast as Redis answers.
func TestATenureThatFailsAtOnceIsNotTakenAgainAtOnce(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	var runs, told atomic.Int64
	var k *partition.Keeper
	k = partition.NewKeeper(partition.Config{
		Redis: rdb, Space: redisx.NewSpace("spin"), Partitions: 1, Member: "m", TTL: 2 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Run: func(context.Context, *partition.Tenure) error {
			runs.Add(1)
			return errors.New("can not begin")
		},
		Released: func(int) { told.Add(1); k.Nudge() },
	})
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	if err := k.Start(ctx); err != nil {
		t.Fatal(err)
	}
	second := time.NewTimer(time.Second)
	<-second.C
	if n := runs.Load(); n < 1 || n > 5 {
		t.Errorf("%d tenures in a second (renewed every 400 ms)", n)
	}
	begin := time.Now()
	if err := k.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("stopping took %v", took)
	}
	t.Logf("%d tenures, %d notices", runs.Load(), told.Load())
}
