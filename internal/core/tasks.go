package core

import (
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// sending names an activity whose task has been published.
type sending struct {
	instance string
	activity uint64
}

// publish has the task of an activity put into its queue.
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

// taskAnswered takes the answer of the queue.
func (c *commits) taskAnswered(instance string, id uint64, err error) {
	c.owner.publishing--
	if err == nil { // the stream takes tasks: all instances are tried again
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

// tryResend looks at one of the instances in a while.
func (c *commits) tryResend() {
	if c.resends.timer || len(c.resends.failed) == 0 {
		return
	}
	c.resends.timer = true
	c.owner.emit(Effect{Kind: PostResend, After: resendTask})
}

// resend looks at one of the instances.
func (c *commits) resend(connected bool) {
	c.resends.timer = false
	if !connected {
		c.tryResend()
		return
	}
	for _, id := range sorted(c.resends.failed) {
		delete(c.resends.failed, id)
		c.owner.schedule.todo = append(c.owner.schedule.todo, id)
		break
	}
	c.tryResend()
}

// hints are hints to workers, by worker.
type hints map[string][]message.Hint

func (h *hints) add(worker string, what message.Hint) {
	if *h == nil {
		*h = make(hints)
	}
	(*h)[worker] = append((*h)[worker], what)
}

// sendHints sends hints to workers, and returns how many.
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

// stopHints are the hints to the workers that held the deleted leases of the current execution.
func stopHints(in *instance, why *history.ActivityCancelRequested, done record.Committed) (to hints) {
	for _, id := range sorted(done.Workers) {
		to.add(done.Workers[id], hint(in, in.execution(), id, in.state.Activity(id).Effect, why, done.Now))
	}
	return to
}
