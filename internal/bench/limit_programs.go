package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
)

const (
	limitConcurrency = 100       // concurrency of the limit that many instances pass
	limitQueue       = 1_000_000 // maximum number of waiters
	limitWide        = 1_000_000 // a concurrency that is never reached
)

// limitPrograms are orchestrations of limited activities: one with a hundred at a time, one with one at a time, and the chain of the
// examples, in which each step passes a limit that is never reached.
type limitPrograms struct {
	through  pawl.Orchestration[int, int]
	one      pawl.Orchestration[int, int]
	chain    pawl.Orchestration[int, int]
	pass     pawl.Activity[int, int]
	passOne  pawl.Activity[int, int]
	passWide pawl.Activity[int, int]
}

func newLimitPrograms() limitPrograms {
	return limitPrograms{
		through:  pawl.NewOrchestration[int, int]("bench-limit"),
		one:      pawl.NewOrchestration[int, int]("bench-limit-one"),
		chain:    pawl.NewOrchestration[int, int]("bench-limit-chain"),
		pass:     pawl.NewActivity[int, int]("bench-pass", pawl.Concurrency(limitConcurrency), pawl.QueueLimit(limitQueue)),
		passOne:  pawl.NewActivity[int, int]("bench-pass-one", pawl.Concurrency(1), pawl.QueueLimit(limitQueue)),
		passWide: pawl.NewActivity[int, int]("bench-pass-wide", pawl.Concurrency(limitWide)),
	}
}

func (p limitPrograms) orchestrations() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{
		p.through.Do(func(ctx *pawl.Context, n int) (int, error) { return p.pass.Call(ctx, n) }),
		p.one.Do(func(ctx *pawl.Context, n int) (int, error) { return p.passOne.Call(ctx, n) }),
		p.chain.Do(func(ctx *pawl.Context, n int) (int, error) {
			var err error
			for range examples.ChainLength {
				if n, err = p.passWide.Call(ctx, n); err != nil {
					return 0, err
				}
			}
			return n, nil
		}),
	}
}

func (p limitPrograms) activities(b *barrier) []pawl.ActivityBinding {
	return []pawl.ActivityBinding{
		p.pass.Do(b.pass), p.passOne.Do(b.pass),
		p.passWide.Do(func(_ context.Context, n int) (int, error) { return n + 1, nil }),
	}
}

// passed counts the activities at a barrier since it was last opened or closed.
type passed struct {
	Started int             `json:"started"`
	Max     int             `json:"max"`   // most activities inside at the same time
	First   int64           `json:"first"` // first start, Unix nanoseconds
	Last    int64           `json:"last"`  // last start
	Gaps    []time.Duration `json:"gaps"`  // times with no activity inside, between an end and the next start
}

func (p passed) took() time.Duration { return time.Duration(p.Last - p.First) }

func (p passed) perSecond() float64 {
	if p.took() <= 0 {
		return 0
	}
	return float64(p.Started-1) / p.took().Seconds()
}

// barrier counts the limited activities in the process of the worker, and holds them while it is closed.
type barrier struct {
	mu     sync.Mutex
	open   chan struct{} // closed while the barrier is open
	inside int
	ended  time.Time // when the last activity inside ended; zero while one is inside, or before the first
	passed passed
}

func newBarrier() *barrier {
	b := &barrier{open: make(chan struct{})}
	close(b.open)
	return b
}

func (b *barrier) pass(ctx context.Context, n int) (int, error) {
	open := b.enter(time.Now())
	defer b.leave()
	select {
	case <-open:
		return n + 1, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (b *barrier) enter(now time.Time) (open <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended.IsZero() {
		b.passed.Gaps = append(b.passed.Gaps, now.Sub(b.ended))
		b.ended = time.Time{}
	}
	if b.passed.Started == 0 {
		b.passed.First = now.UnixNano()
	}
	b.passed.Last = max(b.passed.Last, now.UnixNano())
	b.passed.Started++
	b.inside++
	b.passed.Max = max(b.passed.Max, b.inside)
	return b.open
}

func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside--; b.inside == 0 {
		b.ended = time.Now()
	}
}

func (b *barrier) read() passed {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.passed
	p.Gaps = slices.Clone(p.Gaps)
	return p
}

// set opens or closes the barrier, and returns the counts since the previous set.
func (b *barrier) set(open bool) passed {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.open:
		if !open {
			b.open = make(chan struct{})
		}
	default:
		if open {
			close(b.open)
		}
	}
	was := b.passed
	b.passed = passed{Max: b.inside}
	if b.inside == 0 {
		b.ended = time.Time{}
	}
	return was
}

// Requests to a barrier over NATS.
const (
	barrierSubject = reportSubject + ".barrier"
	barrierOpen    = "open"
	barrierClosed  = "closed"
	barrierRead    = "read" // only read the counts
)

// serve serves requests to the barrier.
func (b *barrier) serve(nc *nats.Conn) error {
	return serve(nc, barrierSubject, func(op string) any {
		if op == barrierRead {
			return b.read()
		}
		return b.set(op == barrierOpen)
	})
}
