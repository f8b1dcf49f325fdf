package worker

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// Backoff of calls that Redis did not answer.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// completionEvent returns the event for the inbox. Its time is that of the inbox element. nil: a large result cannot be stored, and the
// worker does not hold the lease any more.
func (t *task) completionEvent(result history.Payload, failure *history.Failure) history.Event {
	if most := t.w.cfg.Codec.MaxPayload(); failure == nil && len(result.Data) > most && result.Type != history.TypeSealed {
		failure = &history.Failure{
			Code: history.CodeTooLarge, Permanent: true,
			Message: fmt.Sprintf("the result of activity %s has %d bytes, and the limit is %d", t.task.Name, len(result.Data), most),
		}
	}
	if failure == nil {
		sealed, o := t.w.cfg.Codec.SealStored(pawlcodec.ByWorker, result)
		if o != nil && !t.store(*o) {
			return nil
		}
		return &history.ActivityCompleted{Scheduled: t.task.Activity, Result: sealed, Worker: t.w.cfg.Name, Claims: t.claims, RanMS: t.ranMS}
	}
	return &history.ActivityFailed{Scheduled: t.task.Activity, Failure: *t.w.cfg.Codec.SealFailure(nil, failure), Worker: t.w.cfg.Name, Claims: t.claims, RanMS: t.ranMS}
}

// complete sends the ack of the lease, with the completion.
func (t *task) complete(e history.Event) {
	if e == nil {
		if cause := t.cause(); cause != nil {
			t.drop(cause)
		} else {
			t.end(t.count.lost)
		}
		return
	}
	body, err := history.Encode(e)
	if err != nil { // cannot happen; the lease expires, and the activity runs again
		t.log().Error("completion not encoded", "error", err)
		t.end(t.count.lost)
		return
	}
	_, t.failed = e.(*history.ActivityFailed)
	t.completion = body
	t.w.leases.Ack(t.ack(), t.acked)
}

func (t *task) ack() lease.Completion { return lease.Completion{Claim: t.claim(), Body: t.completion} }

// acked receives the reply, on the goroutine of the Redis runner.
func (t *task) acked(a lease.Acked, err error) {
	t.w.health.redisReplied(err)
	if err != nil {
		go t.retryAck(err)
		return
	}
	failpoint.Here("worker.acked")
	switch a.Outcome {
	case lease.OK:
		t.w.acks.add(t.ack(), t.w.cfg.LeaseTTL)
		if a.Inbox == 1 {
			t.w.doorbells.ring(t.ref, a)
		}
		if t.failed {
			t.end(t.count.failed)
		} else {
			t.end(t.count.completed)
		}
	case lease.Gone:
		t.report(lease.FinishedLate, 0)
		t.end(t.count.cancelled)
	case lease.Acquired, lease.Held, lease.Exhausted, lease.Stolen, lease.Expired:
		t.end(t.count.lost)
	}
}

// retryAck repeats an ack that had no reply, as long as the worker holds the lease. If the first took effect, the second reply is that
// the lease is gone, and only the metrics are wrong.
func (t *task) retryAck(err error) {
	redisx.LogFailure(t.log(), "completion not acked, retrying", err)
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		time.Sleep(wait)
		if !t.state.hold.Trusted() { // as after the stop of the keeper
			t.end(t.count.lost)
			return
		}
		type reply struct {
			acked lease.Acked
			err   error
		}
		ch := make(chan reply, 1)
		t.w.leases.Ack(t.ack(), func(a lease.Acked, err error) { ch <- reply{a, err} })
		if r := <-ch; r.err == nil {
			t.acked(r.acked, nil)
			return
		}
	}
}

// retryClaim repeats a claim that had no reply, with the same token: if the first took effect, the reply is ACQUIRED, uncounted, and
// trust counts from the first. The message is returned at once, for other workers. The task keeps its slot, so the number of
// outstanding claims is bounded by the number of slots while Redis is unavailable.
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
		type reply struct {
			claim lease.ClaimReply
			err   error
		}
		ch := make(chan reply, 1)
		t.w.leases.Claim(t.claimRequest(), func(c lease.ClaimReply, err error) { ch <- reply{c, err} })
		r := <-ch
		t.w.health.redisReplied(r.err)
		if r.err == nil {
			t.claimReplied(r.claim)
			return
		}
	}
}

// redeliver returns the message to the queue while the claim is unanswered.
func (t *task) redeliver() {
	if t.w.tasks.redeliver(t) {
		t.from.returnTask(t.message)
	}
}

// release releases the lease, so that another worker continues at once. The claim is not counted, because the activity did not end it.
func (t *task) release(as prometheus.Counter) {
	t.w.leases.Release(lease.ReleaseRequest{Claim: t.claim(), Uncounted: true}, func(_ lease.Outcome, err error) {
		if err != nil {
			redisx.LogFailure(t.log(), "lease not returned, left to expire", err)
		}
		t.end(as)
	})
}
