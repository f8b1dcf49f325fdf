package worker_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/worker"
)

// startClaimed returns an owner, and a worker that has claimed the task and runs it until b.release is closed.
func startClaimed(t *testing.T) (o *owner, b *blocking, w *worker.Worker, task transport.Task, lease map[string]string) {
	t.Helper()
	o, b = newOwner(t), newBlocking()
	cfg := o.config()
	cfg.LeaseTTL = time.Minute
	w = o.start(cfg, b.do("block"))
	task = o.send("block", nothing)
	o.wait("start", b.started)
	return o, b, w, task, o.claimed(task)
}

// queryClaim sends a worker a query about a claim, as an owner does after a rollback.
func (o *owner) queryClaim(worker string, t transport.Task, token string) {
	o.Helper()
	o.must(o.conn.SendHints(worker, []message.Hint{{Instance: t.Instance, Execution: t.Execution, Activity: t.Activity, Effect: t.Effect, Token: token}}))
}

// claimed waits until a task is claimed, and returns its lease.
func (o *owner) claimed(t transport.Task) map[string]string {
	o.Helper()
	var l map[string]string
	o.until("a claim", func() bool { l = o.lease(t); return l["t"] != "" })
	return l
}

// rollBack restores the fields of the lease, and deletes the inbox, as if Redis had lost the writes.
func (o *owner) rollBack(t transport.Task, was map[string]string) {
	o.Helper()
	ctx := context.Background()
	o.must(o.rdb.Del(ctx, o.part(t).Inbox(t.Instance), o.leaseKey(t)).Err())
	o.must(o.rdb.HSet(ctx, o.leaseKey(t), was).Err())
}

// Redis has lost the ack. The worker still holds the completion, so the activity does not run twice.
func TestCompletionLostByRedisIsAckedAgain(t *testing.T) {
	o, b, w, task, lease := startClaimed(t)
	close(b.release)
	o.completed(task)
	o.until("the activity has returned", func() bool { return len(w.Running()) == 0 })
	o.rollBack(task, lease)
	o.queryClaim(w.Name(), task, lease["t"])
	o.completed(task)
	if n := b.runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	o.queryClaim(w.Name(), task, lease["t"]) // a repeated query about an ack that was not lost
	o.queryClaim(w.Name(), task, lease["t"]+"0")
	later := o.send("block", nothing)
	o.completed(later)
	o.completed(task) // still one
}

// Redis has lost the release of the lease, or the worker never received the reply to its claim.
func TestUnknownClaimOfThisProcessIsReleased(t *testing.T) {
	o, b, w, running, lease := startClaimed(t)
	process, _, _ := strings.Cut(lease["t"], "-")

	stray, foreign := o.schedule("block", "block", nothing), o.schedule("block", "block", nothing)
	held := func(task transport.Task, token string) {
		was := maps.Clone(lease)
		was["e"], was["t"] = task.Effect, token
		o.rollBack(task, was)
	}
	held(stray, process+"-zz")
	held(foreign, "anotherprocess-zz") // an earlier process with the same worker name
	o.queryClaim(w.Name(), running, lease["t"])
	o.queryClaim(w.Name(), foreign, "anotherprocess-zz")
	o.queryClaim(w.Name(), stray, process+"-zz")
	o.until("the stray claim is released", func() bool { return o.lease(stray)["t"] == "" })
	if l := o.lease(stray); l["n"] != "0" || l["e"] != stray.Effect {
		t.Errorf("lease %v", l)
	}
	if l := o.lease(foreign); l["t"] != "anotherprocess-zz" {
		t.Errorf("the claim of another process was changed: %v", l)
	}
	if l := o.lease(running); l["t"] != lease["t"] {
		t.Errorf("the claim of a running activity was changed: %v", l)
	}
	select {
	case err := <-b.cause:
		t.Fatalf("cancelled: %v", err)
	default:
	}
	close(b.release)
	o.completed(running)
}
