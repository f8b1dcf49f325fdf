package worker

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
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
//	                                   └ its watch, if the context is done (watch, abandon) → runner
//
// except for the fields under the worker's mutex. Either the task's own goroutine goes on
// behind the handler, or its watch does in its place: the first of the two to get hold of
// the mutex, which sets returned or abandoned.
type task struct {
	w        *Worker
	from     *intake
	activity author.Activity
	count    *activityMetrics
	task     queue.Task
	message  *queue.Delivery
	ref      lease.Ref
	token    string
	since    time.Time // before the claim was first sent; constant
	claim    uint32    // number of the claim
	body     []byte    // of the completion
	failed   bool      // the completion is a failure

	grace   time.Duration   // constant
	expire  func()          // ends the grace period early
	expired <-chan struct{} // closed when the grace period has expired
	back    chan struct{}   // closed when the handler has returned
	watched chan struct{}   // closed when the watch has ended, if it began

	stage     stage       // under mu
	hold      *lease.Hold // under mu; nil: the lease is not ours
	told      time.Time   // under mu: when the context was done; zero: it is not, or the watch has not begun
	returned  bool        // under mu: the handler has, in time
	abandoned bool        // under mu: it has not
}

// stage is how far a task has come with its claim.
type stage int

const (
	bidding stage = iota // the claim is sent and not answered
	offered              // likewise, and the message has been given back
	holding              // the lease is ours
)

func newTask(q *intake, d *queue.Delivery, a author.Activity) *task {
	w := q.w
	t := &task{
		w: w, from: q, activity: a, count: w.count.of(d.Task.Name), task: d.Task, message: d,
		ref:   w.refOf(d.Task),
		token: w.token + "-" + strconv.FormatUint(w.claims.Add(1), 36),
		since: time.Now(), grace: a.GracePeriod(w.cfg.Grace), back: make(chan struct{}), watched: make(chan struct{}),
	}
	w.enter(t)
	return t
}

func (w *Worker) refOf(t queue.Task) lease.Ref {
	return lease.Ref{
		Part: w.conn.PartitionOf(t.Instance), Instance: t.Instance, Execution: t.Execution, Activity: t.Activity, Effect: t.Effect,
	}
}

func (t *task) grip() lease.Claim { return lease.Claim{Ref: t.ref, Token: t.token} }

func (t *task) wish() lease.ClaimRequest {
	most := int(t.task.MaxClaims)
	if most == 0 {
		most = math.MaxInt32
	}
	return lease.ClaimRequest{Claim: t.grip(), Worker: t.w.cfg.Name, TTL: t.w.cfg.LeaseTTL, MaxClaims: most}
}

// bid sends the claim.
func (t *task) bid() {
	t.w.leases.Claim(t.wish(), t.claimed)
}

// claimed takes the answer. It runs on the runner's goroutine, and so only hands on.
func (t *task) claimed(c lease.ClaimReply, err error) {
	t.w.redisAnswered(err)
	if err != nil {
		go t.claimAgain(err)
		return
	}
	go t.decided(c)
}

func (t *task) decided(c lease.ClaimReply) {
	failpoint.Here("worker.claimed")
	t.message.Ack()
	failpoint.Here("worker.acked-nats")
	t.w.count.claims[c.Outcome].Inc()
	t.w.reach.answered(t)
	t.from.answered(c.Outcome)
	if c.Outcome != lease.Acquired {
		if c.Outcome == lease.Gone {
			t.report(lease.NeverStarted, 0)
		}
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
	ctx := t.context(hold)
	t.w.mu.Lock()
	t.hold, t.stage = hold, holding
	t.w.mu.Unlock()
	if t.w.phase.Load() != taking || !hold.Trusted() {
		// Told to stop meanwhile; or the answer took so long that the lease, ours or not, can not be trusted.
		hold.Cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping, By: t.w.cfg.Name})
		t.handled(history.Payload{}, &history.Failure{Code: history.CodeCancelled})
		return
	}
	unwatch := context.AfterFunc(hold.Context(), t.watch)
	begun := time.Now()
	result, failure := t.activity.Handle(ctx, t.task.Payload)
	unlabel()
	t.count.seconds.Observe(time.Since(begun).Seconds())
	failpoint.Here("worker.handled")
	close(t.back)
	if !unwatch() {
		<-t.watched
	}
	t.handled(result, failure)
}

// context makes the handler's context. The labels are in the profiles that users take of
// their workers; they also tell whose goroutine is whose when an activity is abandoned.
func (t *task) context(hold *lease.Hold) context.Context {
	ctx := labelled(hold.Context(), t.task.Name, t.task.Instance, t.token)
	ctx = pawl.WithInfo(ctx, pawl.ActivityInfo{
		Instance: t.task.Instance, Execution: t.task.Execution, Activity: t.task.Activity,
		Name: t.task.Name, Queue: t.task.Queue, Worker: t.w.cfg.Name,
		Attempt: t.task.Attempt, Claim: t.claim, Key: cmp.Or(t.task.CallKey, t.task.Effect), AttemptKey: t.task.Effect, Grace: t.grace,
	})
	ctx, t.expire = author.WithGracePeriod(ctx)
	t.expired = author.GraceExpired(ctx)
	return ctx
}

// handled frees the place and decides what becomes of the result.
func (t *task) handled(result history.Payload, failure *history.Failure) {
	t.w.mu.Lock()
	late := t.abandoned
	t.returned = !late
	delete(t.w.abandoned, t)
	t.w.mu.Unlock()
	if late {
		t.w.log.Info("an abandoned activity has returned after all; its result is dropped", "activity", t.task.Name, "of", t.ref.String())
		return
	}
	t.from.freed()

	cause := t.cause()
	stopping := cause != nil && cause.Reason == cancel.WorkerStopping
	switch {
	case cause != nil && !stopping:
		t.drop(cause)
	case stopping && failure != nil:
		t.giveBack(t.count.returned)
	case !t.hold.Trusted():
		t.drop(&cancel.Cancelled{Reason: cancel.LeaseLost, Text: "the trust window has passed"})
	default:
		t.complete(result, failure)
	}
}

// cause is why the context is done; nil: it is not.
func (t *task) cause() *cancel.Cancelled {
	var cause *cancel.Cancelled
	errors.As(context.Cause(t.hold.Context()), &cause)
	return cause
}

// drop forgets a result that nobody wants, or that is not ours to give any more. That a lease is lost has a line already.
func (t *task) drop(cause *cancel.Cancelled) {
	after, log := t.afterTold(), t.w.log.Info
	if cause.Reason == cancel.LeaseLost {
		log = t.w.log.Debug
	}
	log("activity stopped, its result is not wanted", "activity", t.task.Name, "of", t.ref.String(), "cause", cause.Error(), "after", after)
	if cause.Reason == cancel.LeaseLost {
		t.end(t.count.lost)
		return
	}
	t.report(lease.Stopped, after)
	t.end(t.count.cancelled)
}

// end is the last step of a task that was claimed.
func (t *task) end(c prometheus.Counter) {
	c.Inc()
	t.hold.Release()
	t.w.leave(t)
}
