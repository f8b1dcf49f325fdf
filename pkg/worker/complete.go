package worker

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// Backoff of Redis calls that received no reply.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// completionEvent returns the event to push to the inbox; its time is set when the inbox element is written. It returns nil if a large
// result cannot be stored and the worker no longer holds the lease.
func (t *task) completionEvent(result history.Payload, failure *history.Failure) history.Event {
	if most := t.w.codec().MaxPayload(); failure == nil && len(result.Data) > most && result.Type != history.TypeSealed {
		failure = &history.Failure{
			Code: history.CodeTooLarge, Permanent: true,
			Message: fmt.Sprintf("the result of activity %s has %d bytes, and the limit is %d", t.task.Name, len(result.Data), most),
		}
	}
	if failure == nil {
		sealed, o := t.w.codec().SealStored(sealing.ByWorker, result)
		if o != nil && !t.store(*o) {
			return nil
		}
		return &history.ActivityCompleted{Scheduled: t.task.Activity, Result: sealed, Worker: t.w.cfg.Name, Claims: t.claims, RanMS: t.ranMS}
	}
	return &history.ActivityFailed{Scheduled: t.task.Activity, Failure: *t.w.codec().SealFailure(nil, failure), Worker: t.w.cfg.Name, Claims: t.claims, RanMS: t.ranMS}
}

// complete acks the lease with the completion e. A nil e ends the task without an ack.
func (t *task) complete(e history.Event) {
	if e == nil {
		if cause := t.cause(); cause != nil {
			t.drop(cause)
		} else {
			t.end(t.count.lost)
		}
		return
	}
	body, err := eventcodec.Encode(e)
	if err != nil { // unreachable; the lease would expire and the activity run again
		t.log().Error("completion not encoded", "error", err)
		t.end(t.count.lost)
		return
	}
	_, t.failed = e.(*history.ActivityFailed)
	t.completion = body
	t.w.leases.Ack(t.ack(), t.acked)
}

func (t *task) ack() leases.Completion {
	return leases.Completion{Claim: t.claim(), Body: t.completion}
}

// acked handles the reply to an ack. It runs on the Redis runner's goroutine and must not block.
func (t *task) acked(a leases.Acked, err error) {
	t.w.health.redisReplied(err)
	if err != nil {
		go t.retryAck(err)
		return
	}
	failpoint.Here("worker.acked")
	switch a.Outcome {
	case leases.OK:
		t.w.acks.add(t.ack(), t.w.cfg.LeaseTTL)
		if a.Inbox == 1 {
			t.w.doorbells.add(t.ref, a)
		}
		if t.failed {
			t.end(t.count.failed)
		} else {
			t.end(t.count.completed)
		}
	case leases.Gone:
		t.report(lease.FinishedLate, 0)
		t.end(t.count.cancelled)
	case leases.Acquired, leases.Held, leases.Exhausted, leases.Stolen, leases.Expired:
		t.end(t.count.lost)
	}
}

// retryAck repeats an ack that received no reply, for as long as the worker holds the lease. If the first ack took effect, the repeated
// one is answered GONE: the task is counted as cancelled although it completed, and nothing else is affected.
func (t *task) retryAck(err error) {
	redisx.LogFailure(t.log(), "completion not acked, retrying", err)
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		time.Sleep(wait)
		if !t.state.hold.Trusted() { // for example because the keeper has stopped
			t.end(t.count.lost)
			return
		}
		a, err := await(func(done func(leases.Acked, error)) { t.w.leases.Ack(t.ack(), done) })
		if err == nil {
			t.acked(a, nil)
			return
		}
	}
}

// retryClaim repeats a claim that received no reply, with the same token: if the first claim took effect, the repeat is answered
// ACQUIRED, is not counted, and the trust window still starts before the first. The message is returned to the queue at once, so that
// other workers can run the task. The task keeps its slot, so while Redis is unavailable the number of outstanding claims is bounded by
// the number of slots.
func (t *task) retryClaim(err error) {
	t.w.nodes.claimFailed(t, err)
	giveUp := time.NewTimer(t.w.cfg.LeaseTTL / 2)
	defer giveUp.Stop()
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		backoff := time.NewTimer(wait)
		select {
		case <-backoff.C:
		case <-giveUp.C:
			backoff.Stop()
			t.dismiss()
			return
		}
		if t.w.phase.Load() != taking {
			t.dismiss()
			return
		}
		c, err := await(func(done func(leases.ClaimReply, error)) { t.w.leases.Claim(t.claimRequest(), done) })
		t.w.health.redisReplied(err)
		if err == nil {
			t.claimReplied(c)
			return
		}
	}
}

// await sends a request and waits for its reply.
func await[T any](send func(done func(T, error))) (reply T, err error) {
	received := make(chan struct{})
	send(func(r T, e error) {
		reply, err = r, e
		close(received)
	})
	<-received
	return reply, err
}

// redeliver returns the message of an unanswered claim to the queue, once.
func (t *task) redeliver() {
	if t.w.tasks.redeliver(t) {
		t.from.returnTask(t.message)
	}
}

// release releases the lease, so that another worker can run the activity at once. The claim is not counted, because the activity did not
// cause its end.
func (t *task) release(as prometheus.Counter) {
	t.w.leases.Release(leases.ReleaseRequest{Claim: t.claim(), Uncounted: true}, func(_ leases.Outcome, err error) {
		if err != nil {
			redisx.LogFailure(t.log(), "lease not returned, left to expire", err)
		}
		t.end(as)
	})
}
