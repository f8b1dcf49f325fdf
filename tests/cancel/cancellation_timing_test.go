package cancel

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/tests/stack"
)

// shortTTL is the TTL of a lease that a test lets expire. It is long enough that a busy machine lets none expire before, and that a worker
// notices the loss before another one claims.
const shortTTL = 8 * time.Second

// Counters of a worker, by activity.
const (
	completed = "pawl_worker_activities_total,%,completed"
	failed    = "pawl_worker_activities_total,%,failed"
	cancelled = "pawl_worker_activities_total,%,cancelled"
	lost      = "pawl_worker_activities_total,%,lost"
)

// wantCounts waits for the counts of one activity in a worker: completed, failed, cancelled and lost. A worker counts after it has received
// the answer to its ack, whose effect others may see earlier.
func (a *harness) wantCounts(w *stack.Process, worker, activity string, want [4]float64) {
	a.Helper()
	poll.Until(a, within, fmt.Sprintf("%s: completed, failed, cancelled and lost are %v", activity, want), func() bool {
		counts := a.counts(w, worker)
		var got [4]float64
		for i, form := range []string{completed, failed, cancelled, lost} {
			got[i] = counts[strings.Replace(form, "%", activity, 1)]
		}
		return got == want
	})
}

func TestActivityCancelledBeforeItsClaimNeverStarts(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	for id, how := range map[string]string{"dead": "client", "live": "completes"} {
		in, err := author.Input(Trial).Encode(Try{How: how})
		a.start(Trial, id, in, err)
		poll.Until(t, within, "the activity is scheduled", func() bool { return len(a.history(id, 1)) >= 2 })
	}
	a.must(a.Client.Cancel(a.ctx, "dead", "before any claim"))
	a.ended("dead")
	w := a.worker("worker")
	a.await("began", "live", 1)
	a.reported("dead", 1, lease.NeverStarted)
	if l := a.lines("began", "dead"); len(l) > 0 {
		t.Errorf("it has started: %+v", l)
	}
	a.wantCounts(w, "worker", "hold", [4]float64{})
	a.send("live")
	a.ended("live")
	a.check()
}

// The activity is acked during the turn that cancels it, which therefore does not include its completion.
func TestCompletionBeforeCancellationIsReportedAsFinishedFirst(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	w := a.worker("worker")
	file := a.file("late")
	in, err := author.Input(Late).Encode(file)
	a.start(Late, "late", in, err)
	a.await("began", "late", 1)
	a.send("late")
	poll.Until(t, within, "the turn is in progress", func() bool { _, err := os.Stat(file + ".turning"); return err == nil })
	a.touch(file + ".activity")
	inbox := redisx.NewSpace(a.ns).Part(transport.PartitionOf("late", partitions)).Inbox("late")
	rdb := a.redis.Client(t)
	poll.Until(t, within, "the completion is in the inbox, after the event of the turn", func() bool { return rdb.LLen(a.ctx, inbox).Val() >= 2 })
	a.touch(file + ".turn")
	a.reported("late", 1, lease.FinishedFirst)
	a.neverCompletes("late")
	a.wantCounts(w, "worker", "uncancellable", [4]float64{1, 0, 0, 0}) // its ack took effect
	a.check()
}

// neverCompletes ends the instance, and checks that its history contains no completion.
func (a *harness) neverCompletes(id string) {
	a.Helper()
	a.send(id)
	if c, ok := a.ended(id).(*history.Completed); !ok {
		a.Errorf("%s ended with %+v", id, c)
	}
	for _, e := range a.history(id, 1) {
		if e.Event.Kind() == history.KindActivityCompleted || e.Event.Kind() == history.KindActivityFailed {
			a.Errorf("%s: history contains %T %+v", id, e.Event, e.Event)
		}
	}
}

// The worker receives no hints, so it has not detected the cancellation when it acks.
func TestAckAfterCancellationIsCountedAsCancelled(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	w := a.member(settings{Role: "worker", Name: "worker", NATS: a.urlWithoutHints()})
	file := a.file("late")
	a.touch(file + ".turn")
	in, err := author.Input(Late).Encode(file)
	a.start(Late, "late", in, err)
	a.await("began", "late", 1)
	a.send("late")
	a.cancellations("late", 1, 1)
	a.touch(file + ".activity")
	a.reported("late", 1, lease.FinishedLate)
	a.wantCounts(w, "worker", "uncancellable", [4]float64{0, 0, 1, 0})
	a.neverCompletes("late")
	a.check()
}

func TestWorkerCutOffFromRedisCancelsActivityBeforeAnotherClaims(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	proxy, _ := a.redis.Proxy(t)
	a.member(settings{Role: "worker", Name: "cut", Redis: proxy.Addr(), TTL: shortTTL})
	in, err := author.Input(Found).Encode(a.file("never"))
	a.start(Found, "found", in, err)
	a.await("began", "found", 1)
	a.member(settings{Role: "worker", Name: "other", TTL: shortTTL})
	proxy.Cut()
	began := a.await("began", "found", 2)[1]
	ended := a.await("cancelled", "found", 1)[0]
	if ended.Worker != "cut" || ended.Cause == nil || ended.Cause.Reason != cancel.LeaseLost || !ended.Canceled {
		t.Errorf("received %+v, cause %+v", ended, ended.Cause)
	}
	if began.Worker != "other" || began.Claim != 2 || !ended.At.Before(began.At) {
		t.Errorf("ended at %s, and %s began at %s", ended.At, began.Worker, began.At)
	}
	a.foundByOther()
}

// foundByOther checks that the result is that of the other worker.
func (a *harness) foundByOther() {
	a.Helper()
	end, ok := a.ended("found").(*history.Completed)
	if !ok {
		a.Fatalf("it ended with %+v", a.ended("found"))
	}
	if got, err := author.Result(Found).Decode(end.Result); err != nil || got != "found" {
		a.Errorf("the result is %q, %v", got, err)
	}
	if recorded := a.history("found", 1); len(recorded) != 4 { // started, scheduled, completed, the end
		a.Errorf("%d events", len(recorded))
	}
	a.check()
}

// The activity returns a result as soon as the worker is resumed, without checking its context.
func TestResumedWorkerCancelsActivityAndItsAckIsRejected(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	paused := a.member(settings{Role: "worker", Name: "paused", TTL: shortTTL})
	file := a.file("wake")
	in, err := author.Input(Found).Encode(file)
	a.start(Found, "found", in, err)
	a.await("began", "found", 1)
	paused.Signal(syscall.SIGSTOP)
	poll.Until(t, within, "the worker is paused", paused.Paused)
	a.member(settings{Role: "worker", Name: "other", TTL: shortTTL})
	a.await("began", "found", 2)
	a.touch(file)
	paused.Signal(syscall.SIGCONT)
	a.await("cancelled", "found", 1)
	a.wantCounts(paused, "paused", "stray", [4]float64{0, 0, 0, 1})
	a.foundByOther()
}

// The context of an activity of a paused worker ends by the worker's clock, without a message.
func TestResumedWorkerEndsContextOfItsActivity(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	paused := a.member(settings{Role: "worker", Name: "paused", TTL: shortTTL})
	in, err := author.Input(Found).Encode(a.file("never"))
	a.start(Found, "found", in, err)
	a.await("began", "found", 1)
	paused.Signal(syscall.SIGSTOP)
	poll.Until(t, within, "the worker is paused", paused.Paused)
	a.member(settings{Role: "worker", Name: "other", TTL: shortTTL})
	a.foundByOther()
	paused.Signal(syscall.SIGCONT)
	if ended := a.await("cancelled", "found", 1)[0]; ended.Cause == nil || ended.Cause.Reason != cancel.LeaseLost || !ended.Canceled {
		t.Errorf("received %+v, cause %+v", ended, ended.Cause)
	}
}

// There are more activities than one worker has slots.
func TestEveryClaimHasItsOwnToken(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	a.worker("one")
	a.worker("two")
	const n = 100
	for i := range n {
		in, err := author.Input(Trial).Encode(Try{How: "client"})
		a.start(Trial, fmt.Sprint("try-", i), in, err)
	}
	workers, tokens := map[string]bool{}, map[string]bool{}
	rdb := a.redis.Client(t)
	for i := range n {
		id := fmt.Sprint("try-", i)
		began := a.await("began", id, 1)[0]
		key := redisx.NewSpace(a.ns).Part(transport.PartitionOf(id, partitions)).Lease(id, 1, began.Activity)
		token, err := rdb.HGet(a.ctx, key, "t").Result()
		a.must(err)
		workers[began.Worker], tokens[token] = true, true
	}
	if len(workers) != 2 || len(tokens) != n {
		t.Errorf("%d workers have made %d tokens for %d claims", len(workers), len(tokens), n)
	}
}
