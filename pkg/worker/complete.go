package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// Waits before a call is repeated that Redis did not answer.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = time.Second
)

// completion makes the event that the inbox gets. Its time is the element's. That
// neither result nor failure is over its limit, the binding has seen to.
func (t *task) completion(result history.Payload, failure *history.Failure) history.Event {
	if failure == nil {
		return &history.ActivityCompleted{Scheduled: t.task.Activity, Result: result, Worker: t.w.cfg.Name, Claims: t.claim}
	}
	return &history.ActivityFailed{Scheduled: t.task.Activity, Failure: *failure, Worker: t.w.cfg.Name, Claims: t.claim}
}

// complete sends the ack.
func (t *task) complete(result history.Payload, failure *history.Failure) {
	e := t.completion(result, failure)
	body, err := history.Encode(e)
	if err != nil { // an event of our own making always encodes; if not, the lease expires and it runs again
		t.w.log.Error("completion not encoded", "activity", t.task.Name, "of", t.ref.String(), "error", err)
		t.end(t.count.lost)
		return
	}
	_, t.failed = e.(*history.ActivityFailed)
	t.body = body
	t.w.leases.Ack(t.ended(), t.acked)
}

func (t *task) ended() lease.Completion { return lease.Completion{Claim: t.grip(), Body: t.body} }

// acked takes the answer, on the runner's goroutine.
func (t *task) acked(a lease.Acked, err error) {
	t.w.redisAnswered(err)
	if err != nil {
		go t.ackAgain(err)
		return
	}
	failpoint.Here("worker.acked")
	switch a.Outcome {
	case lease.OK:
		t.w.acks.add(t.ended(), t.w.cfg.LeaseTTL)
		if a.Inbox == 1 {
			t.w.bells.ring(t.ref, a)
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

// ackAgain repeats an ack that had no answer, for as long as the lease is ours. If the
// first had taken effect the second is told that the lease is gone: only the statistics err.
func (t *task) ackAgain(err error) {
	redisx.LogFailure(t.w.log, "completion not acked, retrying", err, "activity", t.task.Name, "of", t.ref.String())
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		time.Sleep(wait)
		if !t.hold.Trusted() { // nor is it when the keeper has stopped
			t.end(t.count.lost)
			return
		}
		type answer struct {
			acked lease.Acked
			err   error
		}
		ch := make(chan answer, 1)
		t.w.leases.Ack(t.ended(), func(a lease.Acked, err error) { ch <- answer{a, err} })
		if a := <-ch; a.err == nil {
			t.acked(a.acked, nil)
			return
		}
	}
}

// claimAgain repeats a claim that had no answer, with the same token: if the first had
// taken effect the second is answered YOURS, uncounted, and so trust counts from the
// first. Its message is given back at once, for others to claim. It keeps its place meanwhile,
// so a Redis that is away is not asked more often than there are places.
func (t *task) claimAgain(err error) {
	t.w.reach.unanswered(t, err)
	giveUp := time.NewTimer(t.w.cfg.LeaseTTL / 2)
	defer giveUp.Stop()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-giveUp.C:
			again.Stop()
			t.unclaimed()
			return
		}
		if t.w.phase.Load() != taking {
			t.unclaimed()
			return
		}
		type answer struct {
			claim lease.ClaimReply
			err   error
		}
		ch := make(chan answer, 1)
		t.w.leases.Claim(t.wish(), func(c lease.ClaimReply, err error) { ch <- answer{c, err} })
		a := <-ch
		t.w.redisAnswered(a.err)
		if a.err == nil {
			t.decided(a.claim)
			return
		}
	}
}

// offer gives the message back while the claim is unanswered.
func (t *task) offer() {
	t.w.mu.Lock()
	was := t.stage
	if was == bidding {
		t.stage = offered
	}
	t.w.mu.Unlock()
	if was == bidding {
		t.from.giveBack(t.message)
	}
}

// unclaimed ends a task whose claim had no answer and whose message has been given back.
func (t *task) unclaimed() {
	t.from.freed()
	t.w.leave(t)
}

// giveBack returns the lease, so that others take over at once. The claim is not counted:
// that it came to nothing is the worker's doing.
func (t *task) giveBack(as prometheus.Counter) {
	t.w.leases.Release(lease.ReleaseRequest{Claim: t.grip(), Uncounted: true}, func(_ lease.Outcome, err error) {
		if err != nil {
			redisx.LogFailure(t.w.log, "lease not returned, left to expire", err, "activity", t.task.Name, "of", t.ref.String())
		}
		t.end(as)
	})
}
