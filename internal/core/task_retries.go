package core

import (
	"time"
)

// resends has the tasks published again that could not be published: without it they would wait for the reconciliation
// of their instance, up to Config.ReconcileInterval.
//
//	publish ──error──▶ failed ──a task was published──▶ todo ──▶ publish
//	                     │ ▲
//	                     └─┘ every resendTask: one instance is reconciled
//
// While the stream has no leader, or NATS is away, one instance tries for all of the partition.
type resends struct {
	failed map[string]struct{} // instances
	timer  bool                // one is under way
}

// resendTask is between two attempts of a partition to publish a task.
const resendTask = time.Second / 4

// notSent is the time of the last sending of a task that was not accepted, or may not have been: earlier than any. The
// reconciliation of its instance publishes it, whatever else is in its queue.
const notSent = -1

// taskAnswered takes the answer of the queue.
func (a *commits) taskAnswered(instance string, id uint64, err error) {
	a.owner.publishing--
	if err == nil { // the stream takes tasks: all instances are tried again
		a.owner.schedule.todo = append(a.owner.schedule.todo, sorted(a.resends.failed)...)
		clear(a.resends.failed)
		return
	}
	a.owner.met[CountPublishErrors]++
	reportFailure(a.owner.log, "task not published, retrying", err, "instance", instance, "activity", id)
	if _, outstanding := a.sent[sending{instance, id}]; outstanding {
		a.sent[sending{instance, id}] = notSent
	}
	a.resends.failed[instance] = struct{}{}
	a.tryResend()
}

// tryResend looks at one of the instances in a while.
func (a *commits) tryResend() {
	if a.resends.timer || len(a.resends.failed) == 0 {
		return
	}
	a.resends.timer = true
	a.owner.emit(Effect{Kind: PostResend, After: resendTask})
}

// resend looks at one of the instances.
func (a *commits) resend(connected bool) {
	a.resends.timer = false
	if !connected {
		a.tryResend()
		return
	}
	for _, id := range sorted(a.resends.failed) {
		delete(a.resends.failed, id)
		a.owner.schedule.todo = append(a.owner.schedule.todo, id)
		break
	}
	a.tryResend()
}
