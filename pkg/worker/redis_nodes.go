package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/timers"
)

const (
	// claimTimeout is the time after which an unanswered claim counts as failed and its task is returned to the queue.
	claimTimeout = time.Second
	// trialPeriod is the time after which a node on trial counts as answering if no claim was sent to it.
	trialPeriod = 2 * time.Second

	minPullBackoff = 10 * time.Millisecond // backoff before the next task is requested after a task was returned; it doubles
	maxPullBackoff = time.Second
)

// errUnanswered is the error of a claim that is not answered within claimTimeout.
var errUnanswered = fmt.Errorf("no answer to a claim: %w", context.DeadlineExceeded)

// redisNodes tracks the Redis nodes that do not answer this worker's claims, and keeps the worker from taking tasks that other workers
// could run in the meantime.
//
//	             claim failed, or unanswered for claimTimeout
//	answering ────────────────────────────────────────────────▶ silent
//	    ▲                                                       │   ▲
//	    │                                          probe answered   │ claim unanswered
//	    │   claim answered, or none for trialPeriod             ▼   │
//	    └────────────────────────────────────────────────────  trial
//
// When a node becomes silent, the tasks of all its unanswered claims are returned to the queue at once, and so is every task that arrives
// while it is silent. A claim whose task was returned is not withdrawn, because it may have taken effect: if it is answered later, the
// activity runs here, and the worker that has received the task finds the lease held.
//
// While a node is silent or on trial, each queue requests one task at a time, with a backoff that doubles with each returned task. So
// tasks whose leases are on the other nodes of a cluster continue.
//
// It runs one goroutine, plus one per silent node; stop joins them.
type redisNodes struct {
	w        *Worker
	ctx      context.Context //nolint:containedctx // ends with stop
	end      context.CancelFunc
	wg       sync.WaitGroup
	impaired atomic.Bool // nodes is not empty; all that is checked while every node answers
	ticks    *timers.Ticker

	mu    sync.Mutex
	nodes map[any]*node // nodes that do not answer, by Runner.Node
}

// node is a Redis node that is silent or on trial.
type node struct {
	silent  bool          // false: on trial
	until   time.Time     // end of the trial
	backoff time.Duration // before the next probe
}

func newRedisNodes(w *Worker) *redisNodes {
	r := &redisNodes{w: w, nodes: make(map[any]*node), ticks: timers.NewTicker(claimTimeout / 4)}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.wg.Go(r.run)
	return r
}

func (r *redisNodes) stop() {
	r.mu.Lock() // no probe is started after this
	r.end()
	r.mu.Unlock()
	r.wg.Wait()
}

// run detects unanswered claims and ends trials. It is idle while there are none.
func (r *redisNodes) run() {
	defer r.ticks.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case now := <-r.ticks.C:
			r.ticks.Received()
			claiming := r.w.tasks.claiming()
			for _, t := range claiming {
				if now.Sub(t.since) > claimTimeout {
					r.claimFailed(t, errUnanswered)
				}
			}
			r.endTrials(now)
			if len(claiming) > 0 || r.impaired.Load() {
				r.ticks.Require()
			}
		}
	}
}

// silent reports whether the leases of the partition are on a silent node.
func (r *redisNodes) silent(part int) bool {
	key := r.node(part)
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[key]
	return n != nil && n.silent
}

func (r *redisNodes) node(part int) any { return r.w.runner.Node(r.probeKey(part)) }

func (r *redisNodes) probeKey(part int) string {
	return redisx.NewSpace(r.w.cfg.Namespace).Part(part).Owner()
}

// claimFailed records that the claim of t failed or was not answered. It returns the tasks of all unanswered claims of the node to the
// queue.
func (r *redisNodes) claimFailed(t *task, err error) {
	r.w.health.redisReplied(err)
	if redisx.Unavailable(err) {
		r.w.outage.Failed(outage.Redis, "claim", err)
	}
	key := r.node(t.ref.Part)
	if r.silence(key, t.ref.Part, err) {
		for _, q := range r.w.queues {
			q.puller.Limit()
			q.nextAfterBackoff()
		}
		for _, other := range r.w.tasks.claiming() {
			if r.node(other.ref.Part) == key {
				other.redeliver()
			}
		}
	}
	t.redeliver()
}

// silence records that the node is silent, and reports whether it was not silent before.
func (r *redisNodes) silence(key any, part int, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[key]
	if r.ctx.Err() != nil || n != nil && n.silent {
		return false
	}
	if n == nil {
		n = &node{backoff: minBackoff}
		r.nodes[key] = n
	}
	n.silent = true
	r.ticks.Require() // a tick ends the trial
	if !r.impaired.Swap(true) {
		redisx.LogFailure(r.w.log, "claims not answered, returning tasks", err, "partition", part)
	}
	r.wg.Go(func() { r.probe(key, n, part) })
	return true
}

// probe sends requests to the node until it answers, and then puts it on trial.
func (r *redisNodes) probe(key any, n *node, part int) {
	for {
		r.mu.Lock()
		wait := n.backoff
		n.backoff = min(2*n.backoff, maxBackoff)
		silent := n.silent && r.nodes[key] == n
		r.mu.Unlock()
		if !silent { // a claim was answered late in the meantime
			return
		}
		if !outage.Sleep(r.ctx, wait) {
			return
		}
		if _, err := r.w.runner.Do(r.ctx, redisx.Command("EXISTS", r.probeKey(part))); err == nil {
			break
		}
	}
	r.mu.Lock()
	n.silent, n.until = false, time.Now().Add(trialPeriod)
	r.mu.Unlock()
	for _, q := range r.w.queues {
		q.puller.Next()
	}
}

// claimAnswered records that the node answered the claim of t.
func (r *redisNodes) claimAnswered(t *task) {
	if !r.impaired.Load() {
		return
	}
	key := r.node(t.ref.Part)
	r.mu.Lock()
	delete(r.nodes, key)
	r.mu.Unlock()
	r.resume()
}

// endTrials removes the nodes whose trial has ended at now.
func (r *redisNodes) endTrials(now time.Time) {
	if !r.impaired.Load() {
		return
	}
	r.mu.Lock()
	for key, n := range r.nodes {
		if !n.silent && now.After(n.until) {
			delete(r.nodes, key)
		}
	}
	r.mu.Unlock()
	r.resume()
}

// resume makes the queues request tasks for all free slots again, once every node answers.
func (r *redisNodes) resume() {
	r.mu.Lock()
	resumed := len(r.nodes) == 0 && r.impaired.Swap(false)
	r.mu.Unlock()
	if !resumed {
		return
	}
	for _, q := range r.w.queues {
		q.returned.Store(0)
		q.puller.Unlimit()
	}
	r.w.log.Debug("claims answered again")
}
