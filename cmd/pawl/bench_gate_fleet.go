package main

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
)

const (
	gateConcurrency = 100       // of the gate that many go through
	gateQueue       = 1_000_000 // may wait at it
	gateWide        = 1_000_000 // a concurrency that nobody meets
)

// gatePrograms are what goes through gates: one activity of a hundred at a time, one of one at a
// time, and the chain of the examples, each step of which passes a gate with room for all.
type gatePrograms struct {
	through  pawl.Orchestration[int, int]
	one      pawl.Orchestration[int, int]
	chain    pawl.Orchestration[int, int]
	pass     pawl.Activity[int, int]
	passOne  pawl.Activity[int, int]
	passWide pawl.Activity[int, int]
}

func newGatePrograms() gatePrograms {
	return gatePrograms{
		through:  pawl.NewOrchestration[int, int]("bench-gate"),
		one:      pawl.NewOrchestration[int, int]("bench-gate-one"),
		chain:    pawl.NewOrchestration[int, int]("bench-gate-chain"),
		pass:     pawl.NewActivity[int, int]("bench-pass", pawl.Concurrency(gateConcurrency), pawl.QueueLimit(gateQueue)),
		passOne:  pawl.NewActivity[int, int]("bench-pass-one", pawl.Concurrency(1), pawl.QueueLimit(gateQueue)),
		passWide: pawl.NewActivity[int, int]("bench-pass-wide", pawl.Concurrency(gateWide)),
	}
}

func (p gatePrograms) orchestrations() []pawl.OrchestrationBinding {
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

func (p gatePrograms) activities(m *turnstile) []pawl.ActivityBinding {
	return []pawl.ActivityBinding{
		p.pass.Do(m.pass), p.passOne.Do(m.pass),
		p.passWide.Do(func(_ context.Context, n int) (int, error) { return n + 1, nil }),
	}
}

// passed is what a turnstile has counted.
type passed struct {
	Started int             `json:"started"`
	Most    int             `json:"most"`  // inside at one time
	First   int64           `json:"first"` // that began: Unix nanoseconds
	Last    int64           `json:"last"`
	Gaps    []time.Duration `json:"gaps"` // from the end of one, after which nobody was inside, to the beginning of the next
}

// turnstile is in the activities behind the gates, in the worker's process: it counts them, and while
// it is shut keeps them inside.
type turnstile struct {
	mu     sync.Mutex
	open   chan struct{} // closed: it is open
	inside int
	ended  time.Time // the last one; zero: somebody is inside, or nobody has been
	passed passed    // since it was last told something
}

func newTurnstile() *turnstile {
	m := &turnstile{open: make(chan struct{})}
	close(m.open)
	return m
}

func (m *turnstile) pass(ctx context.Context, n int) (int, error) {
	open := m.enter(time.Now())
	defer m.leave()
	select {
	case <-open:
		return n + 1, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (m *turnstile) enter(now time.Time) (open <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended.IsZero() {
		m.passed.Gaps = append(m.passed.Gaps, now.Sub(m.ended))
		m.ended = time.Time{}
	}
	if m.passed.Started == 0 {
		m.passed.First = now.UnixNano()
	}
	m.passed.Last = max(m.passed.Last, now.UnixNano())
	m.passed.Started++
	m.inside++
	m.passed.Most = max(m.passed.Most, m.inside)
	return m.open
}

func (m *turnstile) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inside--; m.inside == 0 {
		m.ended = time.Now()
	}
}

func (m *turnstile) read() passed {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.passed
	p.Gaps = slices.Clone(p.Gaps)
	return p
}

// set opens it or shuts it, and gives what it has counted since it was last told so.
func (m *turnstile) set(open bool) passed {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.open:
		if !open {
			m.open = make(chan struct{})
		}
	default:
		if open {
			close(m.open)
		}
	}
	was := m.passed
	m.passed = passed{Most: m.inside}
	if m.inside == 0 {
		m.ended = time.Time{}
	}
	return was
}

const (
	turnstileSubject = benchReports + ".turnstile"
	turnstileOpen    = "open"
	turnstileShut    = "shut"
	turnstileRead    = "read" // only what it has counted so far
)

// serve does what it is told over NATS. It ends with the connection.
func (m *turnstile) serve(nc *nats.Conn) error {
	_, err := nc.Subscribe(turnstileSubject, func(msg *nats.Msg) {
		var p passed
		switch what := string(msg.Data); what {
		case turnstileRead:
			p = m.read()
		default:
			p = m.set(what == turnstileOpen)
		}
		if b, err := json.Marshal(p); err == nil {
			_ = msg.Respond(b) // whoever told it gives up, and says so
		}
	})
	return err
}
