package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
)

// BenchmarkCheck checks 100,000 instances in 16 partitions that wait for an activity, a timer or an event.
func BenchmarkCheck(b *testing.B) {
	const instances, partitions = 100_000, 16
	s := redistest.Start(b)
	run := redisx.NewRunner(s.Client(b))
	b.Cleanup(run.Close)
	space := redisx.NewSpace("check")
	st := store.New(run, space)
	for p := range partitions {
		if err := s.Client(b).HSet(b.Context(), space.Part(p).Owner(), "owner", token, "until", time.Now().Add(time.Hour).UnixMilli(), "span", 3_600_000).Err(); err != nil {
			b.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range instances {
		c := record.Commit{
			Instance: fmt.Sprintf("order-%d", i), NewHead: "h", Execution: 1, Wakeup: time.Now().Add(time.Hour).UnixMilli(),
			Record: &record.Record{Name: "n", Origin: at(1), Execution: 1, Status: record.Running, Created: 5},
		}
		events := []history.Event{&history.Started{Name: "n", Origin: at(1), Execution: 1}, &history.ActivityScheduled{Name: "reserve", Effect: "e2"}}
		switch i % 3 {
		case 0:
			c.Create = leasesOf(2)
		case 1:
			events = append(events, &history.ActivityCompleted{Scheduled: 2}, &history.TimerScheduled{FireAt: time.Now().Add(time.Hour).UnixMilli()})
		case 2:
			events = append(events, &history.ActivityCompleted{Scheduled: 2})
		}
		for _, e := range events {
			raw, err := eventcodec.Encode(e)
			if err != nil {
				b.Fatal(err)
			}
			c.Events = append(c.Events, raw)
		}
		c.Reindex(nil)
		wg.Add(1)
		st.Commit(store.Tenure{Part: i % partitions, Token: token}, &c, func(_ record.Committed, err error) {
			if err != nil {
				b.Error(err)
			}
			wg.Done()
		})
		if i%1000 == 0 {
			wg.Wait()
		}
	}
	wg.Wait()
	for b.Loop() {
		found, err := st.Check(b.Context(), nil, nil)
		if err != nil || found.Instances != instances || len(found.Findings) > 0 {
			b.Fatalf("%d instances, %d findings (%v), error %v", found.Instances, len(found.Findings), found.Findings[:min(3, len(found.Findings))], err)
		}
	}
	b.ReportMetric(float64(instances*b.N)/b.Elapsed().Seconds(), "instances/s")
}
