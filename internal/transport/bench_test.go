package transport

import (
	"sync/atomic"
	"testing"
)

// BenchmarkTaskRound measures publish → pull → acknowledge, with client and server in one process, by the number of slots of the worker.
func BenchmarkTaskRound(b *testing.B) {
	for _, places := range []int{1, 16, 256} {
		b.Run(map[int]string{1: "places=1", 16: "places=16", 256: "places=256"}[places], func(b *testing.B) {
			s := newHarness(b)
			pub, sub := s.open(Options{}), s.open(Options{})
			p := pull(b, sub, "q")
			p.Request(places)
			var failed atomic.Uint64
			window := make(chan struct{}, 4096)
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				t := task("q", 1)
				for range b.N {
					window <- struct{}{}
					pub.PublishTask(t, func(err error) {
						if err != nil {
							failed.Add(1)
						}
						<-window
					})
				}
			}()
			for range b.N {
				(<-p.Tasks()).Ack()
				p.Request(1)
			}
			b.StopTimer()
			if n := failed.Load(); n > 0 {
				b.Fatalf("%d publishes failed", n)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkInput measures pipelined publishes to the stream on disk.
func BenchmarkInput(b *testing.B) {
	c := newHarness(b).open(Options{})
	window := make(chan struct{}, 1024)
	var failed atomic.Uint64
	in := event("a", "x", `{"n":1}`)
	b.ReportAllocs()
	for b.Loop() {
		window <- struct{}{}
		c.PublishInputAsync(in, func(_ uint64, err error) {
			if err != nil {
				failed.Add(1)
			}
			<-window
		})
	}
	for range cap(window) {
		window <- struct{}{}
	}
	if n := failed.Load(); n > 0 {
		b.Fatalf("%d publishes failed", n)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "inputs/s")
}
