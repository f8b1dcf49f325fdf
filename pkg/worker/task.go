package worker

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// task is one delivery, from its claim to its completion. It is used by one goroutine at a time, in this order:
//
//	intake (sendClaim) → Redis runner (claimed) → its own (run, handled) → Redis runner (acked)
//	orchestrator (reserve, runReserved) ──────────▶┤
//	                                               └ its watcher, if the context is done (watch, abandon) → Redis runner
//
// The exception is taskState, which the mutex of taskSet guards. After the end of the context either the task's own goroutine or its
// watcher ends the task: whichever locks the mutex first, and sets returned or abandoned.
type task struct {
	w        *Worker
	from     *intake
	activity author.Activity
	count    *activityMetrics
	task     transport.Task
	message  *transport.Delivery // nil for a task from an orchestrator of this process
	ref      leases.Ref
	token    string
	since    time.Time // time before the claim was first sent; constant
	claims   uint32    // number of claims of the lease, including this one
	ranMS    uint32    // duration of the handler, at least 1; 0: it has not returned

	completion []byte // encoded event; set before the ack is sent
	failed     bool   // the completion is a failure

	grace gracePeriod
	state taskState // guarded by the mutex of taskSet
}

// gracePeriod is the time that an activity has to return after the end of its context.
type gracePeriod struct {
	period   time.Duration   // constant
	expire   func()          // ends the period early, and closes expired
	expired  <-chan struct{} // closed at the end of the period
	returned chan struct{}   // closed when the handler has returned
	watched  chan struct{}   // closed when the watcher has ended, if it was started
}

// taskState is the part of a task that other goroutines read.
type taskState struct {
	phase       claimPhase
	hold        *leases.Hold // nil: the lease is not acquired
	cancelledAt time.Time    // end of the context; zero before the watcher starts
	returned    bool         // the handler returned within its grace period
	free        bool         // its slot is free again
	abandoned   bool         // the handler did not return within its grace period
	stack       string       // stack of the handler when it was abandoned
}

// claimPhase is the phase of a task's claim.
type claimPhase int

const (
	claiming     claimPhase = iota // the claim is sent and not answered
	reserved                       // the commit that creates the lease, claimed, is not answered; see queue.Local
	redelivering                   // the claim is not answered, and the message has been returned to the queue
	holding                        // the lease is acquired
)

func newTask(q *intake, from transport.Task, a author.Activity) *task {
	w := q.w
	return &task{
		w: w, from: q, activity: a, count: w.count.byActivity[from.Name], task: from,
		ref:   w.refOf(from),
		token: w.tokens.next(),
		since: time.Now(),
		grace: gracePeriod{period: a.GracePeriod(w.cfg.Grace), returned: make(chan struct{}), watched: make(chan struct{})},
	}
}

// next returns the token of a new claim, unique among all workers.
func (t *tokens) next() string { return t.prefix + "-" + strconv.FormatUint(t.claims.Add(1), 36) }

func (w *Worker) refOf(t transport.Task) leases.Ref {
	return leases.Ref{
		Part: w.conn.PartitionOf(t.Instance), Instance: t.Instance, Execution: t.Execution, Activity: t.Activity, Effect: t.Effect,
	}
}

// log returns a logger that names the activity, its instance and its trace.
func (t *task) log() *slog.Logger {
	log := t.w.log.With("activity", t.task.Name, "of", t.ref.String())
	if from, ok := history.ParseTraceparent(t.task.Headers.Get(history.HeaderTraceparent)); ok {
		log = log.With("trace_id", hex.EncodeToString(from.Trace[:]))
	}
	return log
}

func (t *task) claim() leases.Claim { return leases.Claim{Ref: t.ref, Token: t.token} }

func (t *task) claimRequest() leases.ClaimRequest {
	maxClaims := int(t.task.MaxClaims)
	if maxClaims == 0 {
		maxClaims = math.MaxInt32
	}
	return leases.ClaimRequest{Claim: t.claim(), Worker: t.w.cfg.Name, TTL: t.w.cfg.LeaseTTL, MaxClaims: maxClaims}
}

func (t *task) sendClaim() {
	t.w.nodes.ticks.Require()
	t.w.leases.Claim(t.claimRequest(), t.claimed)
}

// claimed handles the reply to a claim. It runs on the Redis runner's goroutine and must not block.
func (t *task) claimed(c leases.ClaimReply, err error) {
	t.w.health.redisReplied(err)
	if err != nil {
		go t.retryClaim(err)
		return
	}
	go t.claimReplied(c)
}

// claimReplied acks the message of an answered claim, and runs the activity if the lease was acquired.
func (t *task) claimReplied(c leases.ClaimReply) {
	failpoint.Here("worker.claimed")
	t.message.Ack()
	failpoint.Here("worker.acked-nats")
	t.w.count.claims[c.Outcome].Inc()
	t.w.nodes.claimAnswered(t)
	t.from.claimAnswered(c.Outcome)
	if c.Outcome != leases.Acquired {
		if c.Outcome == leases.Gone {
			t.report(lease.NeverStarted, 0)
		}
		t.dismiss()
		return
	}
	t.claims = c.Claims
	t.run(t.hold())
}

// dismiss ends a task that has not acquired its lease.
func (t *task) dismiss() {
	t.from.freeSlot()
	t.w.tasks.remove(t)
}

// run runs the handler under the acquired lease, and handles its result.
func (t *task) run(hold *leases.Hold) {
	ctx := t.context(hold)
	t.w.tasks.holds(t, hold)
	if t.w.phase.Load() != taking || !hold.Trusted() {
		// The worker is stopping, or the reply took so long that the lease is no longer trusted.
		hold.Cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping, By: t.w.cfg.Name})
		t.handled(history.Payload{}, &history.Failure{Code: history.CodeCancelled})
		return
	}
	unwatch := context.AfterFunc(hold.Context(), t.watch)
	with, started := promx.Exemplar(t.task.Headers), time.Now()
	t.count.started(t.task.ScheduledAt, with)
	result, failure := t.handle(ctx)
	clearLabels()
	ran := time.Since(started)
	promx.Observe(t.count.startToEnd, ran.Seconds(), with)
	t.ranMS = uint32(min(max(ran.Milliseconds(), 1), math.MaxUint32))
	failpoint.Here("worker.handled")
	close(t.grace.returned)
	if !unwatch() {
		<-t.grace.watched
	}
	t.handled(result, failure)
}

// context returns the handler's context. Its profiler labels identify the goroutines of an abandoned activity.
func (t *task) context(hold *leases.Hold) context.Context {
	ctx := withLabels(hold.Context(), t.task.Name, t.task.Instance, t.token)
	ctx = pawl.WithInfo(ctx, pawl.ActivityInfo{
		Instance: t.task.Instance, Execution: t.task.Execution, Activity: t.task.Activity,
		Name: t.task.Name, Queue: t.task.Queue, Worker: t.w.cfg.Name,
		Attempt: t.task.Attempt, Claim: t.claims, Key: cmp.Or(t.task.CallKey, t.task.Effect), AttemptKey: t.task.Effect, Grace: t.grace.period, Headers: t.task.Headers,
	})
	ctx = author.WithMaxPayload(ctx, t.w.codec().MaxPayload())
	ctx, t.grace.expire = author.WithGracePeriod(ctx)
	t.grace.expired = author.GraceExpired(ctx)
	return ctx
}

// handled acks the result, drops it, or releases the lease. It frees the slot first, except for a result that must be written to the
// object store: its slot is freed after the write, so that a worker holds no more such results than it has slots.
func (t *task) handled(result history.Payload, failure *history.Failure) {
	if t.w.tasks.returned(t) {
		t.log().Info("abandoned activity returned, result dropped")
		return
	}
	cause := t.cause()
	stopping := cause != nil && cause.Reason == cancel.WorkerStopping
	switch {
	case cause != nil && !stopping:
		t.freeSlot()
		t.drop(cause)
	case stopping && failure != nil:
		t.freeSlot()
		t.release(t.count.returned)
	case !t.state.hold.Trusted():
		t.freeSlot()
		t.drop(&cancel.Cancelled{Reason: cancel.LeaseLost, Text: "the trust window has passed"})
	default:
		e := t.completionEvent(result, failure)
		t.freeSlot()
		t.complete(e)
	}
}

// freeSlot frees the slot of the task before its end.
func (t *task) freeSlot() {
	t.w.tasks.freed(t)
	t.from.freeSlot()
}

// cause returns the cause of the end of the context, or nil if it has not ended.
func (t *task) cause() *cancel.Cancelled {
	var cause *cancel.Cancelled
	errors.As(context.Cause(t.state.hold.Context()), &cause)
	return cause
}

// drop drops a result that is no longer required, or whose lease is lost. The loss of a lease has been logged already.
func (t *task) drop(cause *cancel.Cancelled) {
	after, of := t.sinceCancelled(), t.log()
	log := of.Info
	promx.Observe(t.w.count.cancelReturned, after.Seconds(), promx.Exemplar(t.task.Headers))
	if cause.Reason == cancel.LeaseLost {
		log = of.Debug
	}
	log("activity stopped, result dropped", "cause", cause.Error(), "after", after)
	if cause.Reason == cancel.LeaseLost {
		t.end(t.count.lost)
		return
	}
	t.report(lease.Stopped, after)
	t.end(t.count.cancelled)
}

// end is the last step of a task that has acquired its lease.
func (t *task) end(c prometheus.Counter) {
	c.Inc()
	t.state.hold.Release()
	t.w.tasks.remove(t)
}
