package shard

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
)

// The counts of 64 partitions take 192 reads; if they were sent sequentially, each would wake up an idle process.
func TestInstancesOfAllPartitionsAreCountedTogether(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	space := redisx.NewSpace(redistest.Namespace())
	var owned []int
	for p := range 16 {
		owned = append(owned, p)
		for i := range p {
			if err := rdb.ZAdd(t.Context(), space.Part(p).Index(string(record.Running)), redis.Z{Score: 1, Member: fmt.Sprint(i)}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := redisx.NewRunner(rdb)
	defer run.Close()
	reg := prometheus.NewRegistry()
	met, err := NewMetrics(reg, "default", 16, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Process{backends: backends{store: store.New(run, space)}, met: met}
	held := redistest.Hold(rdb)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.sampleInstances(t.Context(), owned)
	}()
	if first := <-held.Began(); len(first) == 1 && slices.Equal(first, <-held.Began()) { // an overdue read is repeated
		t.Error("a read waits for another read")
	}
	held.Release()
	<-done
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "pawl_orchestrator_instances" && l.GetName() == "status" {
					found[l.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	if want := map[string]float64{"pending": 0, "running": 120, "stalled": 0}; !maps.Equal(found, want) {
		t.Errorf("counted %v, want %v", found, want)
	}
}
