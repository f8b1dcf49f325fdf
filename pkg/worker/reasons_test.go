package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// causeWithoutHint changes the store, deletes the lease of a running activity without a hint, and returns the cause of its cancellation.
func causeWithoutHint(t *testing.T, change func(o *owner, task transport.Task)) string {
	o := newOwner(t)
	b, cfg := newBlocking(), o.config()
	cfg.LeaseTTL = 6 * time.Second // a renewal, every two seconds, finds the reason
	o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	change(o, task)
	o.must(o.rdb.Del(context.Background(), o.leaseKey(task)).Err())
	return o.cancelCause(b).Error()
}

func (o *owner) append(t transport.Task, events ...history.Event) {
	o.Helper()
	var all []any
	for _, e := range events {
		raw, err := eventcodec.Encode(e)
		o.must(err)
		all = append(all, raw)
	}
	o.must(o.rdb.RPush(context.Background(), o.part(t).History(t.Instance, 1), all...).Err())
}

func TestLeaseOfAPurgedInstanceEndsWithThatReason(t *testing.T) {
	t.Parallel() // mostly waits
	got := causeWithoutHint(t, func(*owner, transport.Task) {})
	if got != "cancelled: purged: the instance does not exist" {
		t.Error(got)
	}
}

func TestLeaseOfAnEarlierExecutionEndsAsContinuedAsNew(t *testing.T) {
	t.Parallel() // mostly waits
	got := causeWithoutHint(t, func(o *owner, task transport.Task) {
		o.must(o.rdb.HSet(context.Background(), o.part(task).Instance(task.Instance), "execution", "3").Err())
	})
	if got != "cancelled: continued-as-new" {
		t.Error(got)
	}
}

func TestReasonIsFoundAmongTenThousandCancellationsOfOneTurn(t *testing.T) {
	t.Parallel() // mostly waits
	got := causeWithoutHint(t, func(o *owner, task transport.Task) {
		o.append(task, &history.ActivityCancelRequested{Scheduled: task.Activity, Reason: cancel.ScopeEnded, Text: "enough"})
		others := make([]history.Event, 9999)
		for i := range others {
			others[i] = &history.ActivityCancelRequested{Scheduled: task.Activity + uint64(i) + 1, Reason: cancel.Requested}
		}
		o.append(task, others...)
		o.append(task, &history.Completed{})
	})
	if got != "cancelled: scope-ended: enough" {
		t.Error(got)
	}
}

func TestMissingLeaseWithoutAReasonIsLost(t *testing.T) {
	t.Parallel() // mostly waits
	got := causeWithoutHint(t, func(o *owner, task transport.Task) {
		o.append(task, &history.ActivityCancelRequested{Scheduled: task.Activity + 1, Reason: cancel.Requested})
	})
	if got != "cancelled: lease-lost: the lease is gone; history gives no reason" {
		t.Error(got)
	}
	got = causeWithoutHint(t, func(o *owner, task transport.Task) { // Redis has lost the turn, and it has not been repeated
		o.must(o.rdb.HSet(context.Background(), o.part(task).Instance(task.Instance), "execution", "1").Err())
	})
	if got != "cancelled: lease-lost: the lease is gone; history gives no reason" {
		t.Error(got)
	}
}
