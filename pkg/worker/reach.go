package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/redisx"
)

const (
	// claimTimeout is how long a claim may be unanswered before its task is given back.
	claimTimeout = time.Second
	// trialTime is how long a node that has answered a probe stays on trial while no claim is sent to it.
	trialTime = 2 * time.Second

	firstPause = 10 * time.Millisecond // before the next task is asked for, after one that was given back; it doubles
	lastPause  = time.Second
)

// errUnanswered is an outage of Redis, as a claim shows it, before a call to it is given up.
var errUnanswered = fmt.Errorf("no answer to a claim: %w", context.DeadlineExceeded)

// reach records which Redis nodes do not answer the claims of this worker, and keeps it from taking tasks that others could
// run meanwhile.
//
//	             claim unanswered for claimTimeout, or failed
//	answering ────────────────────────────────────────────────▶ silent
//	    ▲                                                       │   ▲
//	    │                                          probe answered   │ claim unanswered
//	    │   claim answered, or none for trialTime               ▼   │
//	    └────────────────────────────────────────────────────  trial
//
// When a node becomes silent, every task whose claim it has not answered is given back at once, as is every task that
// arrives while it is silent. A claim whose task was given back is not withdrawn, for it may have taken effect: if its answer
// comes after all, the activity is run here, and the worker that has got the task finds the lease held.
//
// While any node is silent or on trial, each queue is asked for one task at a time, with a growing pause after each
// that had to be given back. A cluster whose other nodes answer goes on like that.
//
// A reach has one goroutine, and one more for each silent node; stop joins them.
type reach struct {
	w    *Worker
	ctx  context.Context //nolint:containedctx // ends with stop
	end  context.CancelFunc
	wg   sync.WaitGroup
	some atomic.Bool // whether nodes has any: all that a healthy worker asks

	mu    sync.Mutex
	nodes map[any]*node // those that do not answer, by what Runner.Node gives
}

// node is a Redis node that is not answering.
type node struct {
	silent bool // else on trial
	until  time.Time
	wait   time.Duration // before the next probe
}

func newReach(w *Worker) *reach {
	r := &reach{w: w, nodes: make(map[any]*node)}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.wg.Go(r.run)
	return r
}

func (r *reach) stop() {
	r.mu.Lock() // nothing is started behind it
	r.end()
	r.mu.Unlock()
	r.wg.Wait()
}

// run finds the claims that are unanswered, and ends trials.
func (r *reach) run() {
	tick := time.NewTicker(claimTimeout / 4)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case now := <-tick.C:
			for _, t := range r.w.unclaimed() {
				if now.Sub(t.since) > claimTimeout {
					r.unanswered(t, errUnanswered)
				}
			}
			r.endTrials(now)
		}
	}
}

// silent reports whether the lease of a task is on a node that does not answer.
func (r *reach) silent(part int) bool {
	key := r.node(part)
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[key]
	return n != nil && n.silent
}

func (r *reach) node(part int) any { return r.w.runner.Node(r.probeKey(part)) }

func (r *reach) probeKey(part int) string {
	return redisx.NewSpace(r.w.cfg.Namespace).Part(part).Owner()
}

// unanswered takes note of a claim without an answer, and gives back all tasks that share its fate.
func (r *reach) unanswered(t *task, why error) {
	r.w.redisAnswered(why)
	if redisx.Unavailable(why) {
		r.w.outage.Failed(outage.Redis, "claim", why)
	}
	key := r.node(t.ref.Part)
	if r.silence(key, t.ref.Part, why) {
		for _, q := range r.w.queues {
			q.puller.Narrow()
			q.nextAfterPause()
		}
		for _, other := range r.w.unclaimed() {
			if r.node(other.ref.Part) == key {
				other.offer()
			}
		}
	}
	t.offer()
}

// silence records that the node is silent, and reports whether that is new.
func (r *reach) silence(key any, part int, why error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[key]
	if r.ctx.Err() != nil || n != nil && n.silent {
		return false
	}
	if n == nil {
		n = &node{wait: firstWait}
		r.nodes[key] = n
	}
	n.silent = true
	if !r.some.Swap(true) {
		redisx.LogFailure(r.w.log, "claims not answered, giving tasks back", why, "partition", part)
	}
	r.wg.Go(func() { r.probe(key, n, part) })
	return true
}

// probe asks the node until it answers, and puts it on trial then.
func (r *reach) probe(key any, n *node, part int) {
	for {
		r.mu.Lock()
		wait := n.wait
		n.wait = min(2*n.wait, lastWait)
		silent := n.silent && r.nodes[key] == n
		r.mu.Unlock()
		if !silent { // a late answer has shown that it is back
			return
		}
		again := time.NewTimer(wait)
		select {
		case <-r.ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
		if _, err := r.w.runner.Do(r.ctx, redisx.Command("EXISTS", r.probeKey(part))); err == nil {
			break
		}
	}
	r.mu.Lock()
	n.silent, n.until = false, time.Now().Add(trialTime)
	r.mu.Unlock()
	for _, q := range r.w.queues {
		q.puller.Next()
	}
}

// answered takes note of an answered claim.
func (r *reach) answered(t *task) {
	if !r.some.Load() {
		return
	}
	key := r.node(t.ref.Part)
	r.mu.Lock()
	delete(r.nodes, key)
	r.mu.Unlock()
	r.widen()
}

func (r *reach) endTrials(now time.Time) {
	if !r.some.Load() {
		return
	}
	r.mu.Lock()
	for key, n := range r.nodes {
		if !n.silent && now.After(n.until) {
			delete(r.nodes, key)
		}
	}
	r.mu.Unlock()
	r.widen()
}

// widen takes tasks as ever when every node answers.
func (r *reach) widen() {
	r.mu.Lock()
	wide := len(r.nodes) == 0 && r.some.Swap(false)
	r.mu.Unlock()
	if !wide {
		return
	}
	for _, q := range r.w.queues {
		q.givenBack.Store(0)
		q.puller.Widen()
	}
	r.w.log.Debug("claims answered again")
}

// unclaimed lists the tasks whose claim is not answered, and which have not been given back.
func (w *Worker) unclaimed() []*task {
	var out []*task
	w.mu.Lock()
	defer w.mu.Unlock()
	for t := range w.tasks {
		if t.stage == bidding {
			out = append(out, t)
		}
	}
	return out
}
