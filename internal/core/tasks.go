package core

import (
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// sending identifies an activity whose task has been published.
type sending struct {
	instance string
	activity uint64
}

// publish publishes the task of an activity to its queue.
func (c *commits) publish(instance string, rec *record.Record, e *history.ActivityScheduled) {
	c.sent[sending{instance, e.ID}] = c.owner.clock.now()
	c.owner.publishing++
	c.owner.met[CountPublished]++
	var headers history.Headers
	if in := c.owner.instances[instance]; in != nil && in.state != nil && in.state.Started != nil {
		headers = in.state.Started.Headers
	}
	c.owner.emit(Effect{Kind: PublishTask, ID: instance, Task: Task{Rec: rec, Activity: e, Headers: headers}})
}

// taskAnswered handles the stream's answer to the publish of a task.
func (c *commits) taskAnswered(instance string, id uint64, err error) {
	c.owner.publishing--
	if err == nil { // the stream accepts tasks: all instances are retried
		c.owner.schedule.todo = append(c.owner.schedule.todo, sorted(c.resends.failed)...)
		clear(c.resends.failed)
		return
	}
	c.owner.met[CountPublishErrors]++
	reportFailure(c.owner.log, "task not published, retrying", err, "instance", instance, "activity", id)
	if _, outstanding := c.sent[sending{instance, id}]; outstanding {
		c.sent[sending{instance, id}] = notSent
	}
	c.resends.failed[instance] = struct{}{}
	c.tryResend()
}

// resends publishes failed tasks again: without it they would wait for the reconciliation
// of their instance, up to Config.ReconcileInterval.
//
//	publish ──error──▶ failed ──a task was published──▶ todo ──▶ publish
//	                     │ ▲
//	                     └─┘ every resendTask: one instance is reconciled
//
// While the stream has no leader, or NATS is unreachable, one instance at a time tries for the whole partition.
type resends struct {
	failed map[string]struct{} // instances
	timer  bool                // a ResendDue message is scheduled
}

// resendTask is the time between two attempts of a partition to publish a task.
const resendTask = time.Second / 4

// notSent replaces the time of the last sending of a task whose publish failed: it is earlier than any time, so that the
// reconciliation of its instance publishes it, whatever else is in its queue.
const notSent = -1

// tryResend schedules the next attempt, if a task has failed.
func (c *commits) tryResend() {
	if c.resends.timer || len(c.resends.failed) == 0 {
		return
	}
	c.resends.timer = true
	c.owner.emit(Effect{Kind: PostResend, After: resendTask})
}

// resend reconciles one instance with a failed task, if NATS is connected.
func (c *commits) resend(connected bool) {
	c.resends.timer = false
	if ids := sorted(c.resends.failed); connected && len(ids) > 0 {
		delete(c.resends.failed, ids[0])
		c.owner.schedule.todo = append(c.owner.schedule.todo, ids[0])
	}
	c.tryResend()
}

// hints are hints by worker.
type hints map[string][]message.Hint

func (h *hints) add(worker string, what message.Hint) {
	if *h == nil {
		*h = make(hints)
	}
	(*h)[worker] = append((*h)[worker], what)
}

// sendHints sends hints to workers, and returns their number.
func (o *Owner) sendHints(to hints) (n int) {
	for _, w := range sorted(to) {
		o.emit(Effect{Kind: SendHints, ID: w, Body: to[w]})
		n += len(to[w])
	}
	return n
}

func hint(in *instance, execution, activity uint64, effect string, why *history.ActivityCancelRequested, at int64) message.Hint {
	return message.Hint{
		Instance: in.id, Execution: execution, Activity: activity, Effect: effect, Reason: why.Reason, By: why.By, Text: why.Text, At: at,
	}
}

// stopHints returns the hints to the workers that held the deleted leases of the current execution.
func stopHints(in *instance, why *history.ActivityCancelRequested, done record.Committed) (to hints) {
	for _, id := range sorted(done.Workers) {
		to.add(done.Workers[id], hint(in, in.execution(), id, in.state.Activity(id).Effect, why, done.Now))
	}
	return to
}
