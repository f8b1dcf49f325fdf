package shard

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
)

// An idle partition advances its position with the stream, so the slowest partition has unread inputs.
func TestStreamIsTrimmedUpToTheSlowestPartitionOnceAllHaveBegun(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	_, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	space := redisx.NewSpace(redistest.Namespace())
	s := &Process{cfg: Config{Partitions: 3}, backends: backends{store: store.New(run, space)}}
	// The stream was recreated between the two positions: its sequences restarted, its times did not.
	for part, at := range map[int]history.Position{0: {Seq: 900, Time: 1_000}, 2: {Seq: 7, Time: 2_000}} {
		if err := rdb.HSet(ctx, space.Part(part).Owner(), "seq", at.Seq, "time", at.Time).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if at, ok, err := s.lowest(ctx); ok || err != nil {
		t.Fatalf("lowest is %+v, %v, although partition 1 has no position", at, err)
	}
	if err := rdb.HSet(ctx, space.Part(1).Owner(), "seq", 8, "time", 3_000).Err(); err != nil {
		t.Fatal(err)
	}
	if at, ok, err := s.lowest(ctx); !ok || err != nil || at != (history.Position{Seq: 900, Time: 1_000}) {
		t.Fatalf("lowest is %+v, %v, %v", at, ok, err)
	}
}
