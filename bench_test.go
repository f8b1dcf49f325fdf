package pawl_test

import (
	"runtime"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

func endless(ctx *pawl.Context, o Order) (Receipt, error) {
	for {
		if _, err := Reserve.Call(ctx, o); err != nil {
			return Receipt{}, err
		}
	}
}

// BenchmarkTurn is one completion applied to a parked chain, typed values encoded and
// decoded.
func BenchmarkTurn(b *testing.B) {
	handle := pawl.NewOrchestration[Order, Receipt]("endless")
	x := replay.New(effectid.Identity{Instance: "bench"}, author.Program(handle.Do(endless)),
		replay.Options{Limits: replay.Limits{Events: 1 << 60, WarnEvents: 1 << 60}})
	if _, err := x.Apply(&history.Started{Payload: must(author.Input(handle).Encode(order))}); err != nil {
		b.Fatal(err)
	}
	x.Take()
	id, result := uint64(2), must(author.Result(Reserve).Encode(Hold{Ref: "shelf 3"}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Apply(&history.ActivityCompleted{Scheduled: id, Result: result}); err != nil {
			b.Fatal(err)
		}
		id = x.Take()[1].Meta().ID
	}
	if err := x.Evict(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkParkedInstance measures the memory of an instance that waits in a chain.
func BenchmarkParkedInstance(b *testing.B) {
	handle := pawl.NewOrchestration[Order, Receipt]("endless")
	program, in := author.Program(handle.Do(endless)), must(author.Input(handle).Encode(order))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	parked := make([]*replay.Execution, b.N)
	for i := range parked {
		parked[i] = replay.New(effectid.Identity{Instance: "bench"}, program, replay.Options{})
		if _, err := parked[i].Apply(&history.Started{Payload: in}); err != nil {
			b.Fatal(err)
		}
		parked[i].Take()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heap-B/op")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/float64(b.N), "stack-B/op")
	for _, x := range parked {
		if err := x.Evict(); err != nil {
			b.Fatal(err)
		}
	}
}
