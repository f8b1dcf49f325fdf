package worker

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

// task is one delivery on its way through the worker. It is touched by one goroutine
// at a time, handed on in this order:
//
//	intake (bid) → runner (claimed) → its own (run, handled) → runner (acked)
//
// except for the fields under the worker's mutex.
type task struct {
	w       *Worker
	from    *intake
	binding pawl.ActivityBinding
	count   *activityMetrics
	task    queue.Task
	message *queue.Delivery
	ref     lease.Ref
	token   string
	since   time.Time // before the claim was first sent
	claim   uint32    // number of the claim
	body    []byte    // of the completion
	failed  bool      // the completion is a failure

	hold     *lease.Hold // under mu; nil: the lease is not ours
	returned bool        // under mu: the handler has
	gaveUp   bool        // under mu: the lease was given back while the handler ran
}

func newTask(q *intake, d *queue.Delivery, b pawl.ActivityBinding) *task {
	w := q.w
	t := &task{
		w: w, from: q, binding: b, count: w.count.of(d.Task.Name), task: d.Task, message: d,
		ref: lease.Ref{
			Part: w.conn.PartitionOf(d.Task.Instance), Instance: d.Task.Instance,
			Execution: d.Task.Execution, Activity: d.Task.Activity, Effect: d.Task.Effect,
		},
		token: w.token + "-" + strconv.FormatUint(w.claims.Add(1), 36),
	}
	w.enter(t)
	return t
}

func (t *task) grip() lease.Grip { return lease.Grip{Ref: t.ref, Token: t.token} }

func (t *task) wish() lease.Bid {
	most := int(t.task.MaxClaims)
	if most == 0 {
		most = math.MaxInt32
	}
	return lease.Bid{Grip: t.grip(), Worker: t.w.cfg.Name, TTL: t.w.cfg.LeaseTTL, MaxClaims: most}
}

// bid sends the claim.
func (t *task) bid() {
	t.since = time.Now()
	t.w.leases.Claim(t.wish(), t.claimed)
}

// claimed takes the answer. It runs on the runner's goroutine, and so only hands on.
func (t *task) claimed(c lease.Claim, err error) {
	t.w.redisAnswered(err)
	if err != nil {
		go t.claimAgain(err)
		return
	}
	go t.decided(c)
}

func (t *task) decided(c lease.Claim) {
	failpoint.Here("worker.claimed")
	t.message.Ack()
	failpoint.Here("worker.acked-nats")
	t.w.count.claims[c.Outcome].Inc()
	if c.Outcome != lease.Yours {
		t.from.freed()
		t.w.leave(t)
		return
	}
	t.claim = c.Claims
	t.run()
}

// run runs the handler.
func (t *task) run() {
	hold := t.w.keeper.Hold(context.Background(), t.grip(), t.since)
	t.w.mu.Lock()
	t.hold = hold
	t.w.mu.Unlock()
	ctx := pawl.WithInfo(hold.Context(), pawl.ActivityInfo{
		Instance: t.task.Instance, Execution: t.task.Execution, Activity: t.task.Activity,
		Name: t.task.Name, Queue: t.task.Queue, Worker: t.w.cfg.Name,
		Attempt: t.task.Attempt, Claim: t.claim, Key: t.task.Effect,
	})
	var result history.Payload
	var failure *history.Failure
	begun := time.Now()
	if t.w.phase.Load() == taking && hold.Trusted() {
		result, failure = t.binding.Handle(ctx, t.task.Payload)
		t.count.seconds.Observe(time.Since(begun).Seconds())
	} else { // told to stop meanwhile; or the answer took so long that the lease, ours or not, can not be trusted
		hold.Cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping, By: t.w.cfg.Name})
		failure = &history.Failure{Code: history.CodeCancelled}
	}
	failpoint.Here("worker.handled")
	t.handled(result, failure)
}

// handled frees the place and decides what becomes of the result. Room is left here
// for activities that outstay their cancellation: their place is freed before they return.
func (t *task) handled(result history.Payload, failure *history.Failure) {
	t.w.mu.Lock()
	t.returned = true
	gaveUp := t.gaveUp
	t.w.mu.Unlock()
	t.from.freed()

	var cause *cancel.Cancelled
	errors.As(context.Cause(t.hold.Context()), &cause)
	stopping := cause != nil && cause.Reason == cancel.WorkerStopping
	switch {
	case gaveUp:
		t.end(t.count.returned)
	case cause != nil && !stopping:
		t.drop(cause)
	case stopping && failure != nil:
		t.giveBack()
	case !t.hold.Trusted():
		t.drop(&cancel.Cancelled{Reason: cancel.LeaseLost, Text: "the trust window has passed"})
	default:
		t.complete(result, failure)
	}
}

// drop forgets a result that nobody wants, or that is not ours to give any more.
func (t *task) drop(cause *cancel.Cancelled) {
	t.w.log.Info("activity stopped, its result is not wanted", "activity", t.task.Name, "of", t.ref.String(), "cause", cause.Error())
	if cause.Reason == cancel.LeaseLost {
		t.end(t.count.lost)
	} else {
		t.end(t.count.cancelled)
	}
}

// end is the last step of a task that was claimed.
func (t *task) end(c prometheus.Counter) {
	c.Inc()
	t.hold.Release()
	t.w.leave(t)
}
