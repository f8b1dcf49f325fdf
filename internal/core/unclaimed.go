package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Served is the set of activities that the workers have handlers for, and of queues that they read. A nil *Served means unknown.
type Served struct {
	Activities, Queues map[string]bool
}

// lacks describes the missing handler or queue of an activity; empty: a worker can take it.
func (s *Served) lacks(e *history.ActivityScheduled) string {
	switch {
	case !s.Queues[e.Queue]:
		return fmt.Sprintf("no worker reads queue %q, where activity %q waits; start a worker that has the activity", e.Queue, e.Name)
	case !s.Activities[e.Name]:
		return fmt.Sprintf("no worker has activity %q, which waits in queue %q; start a worker that has it", e.Name, e.Queue)
	default:
		return ""
	}
}

// findUnserved compares the activities that no worker has claimed for a reconcile interval with the reports of the workers.
func (l *leases) findUnserved(in *instance, got record.Reconciled) {
	var waiting []*history.ActivityScheduled
	for _, lease := range got.Leases {
		e := in.state.Activity(lease.Activity)
		if lease.Status == record.LeaseUnclaimed && e != nil && got.Now-e.At >= l.owner.cfg.ReconcileInterval.Milliseconds() {
			waiting = append(waiting, e)
		}
	}
	if len(waiting) == 0 {
		l.unlist(in.id)
		return
	}
	slices.SortFunc(waiting, func(x, y *history.ActivityScheduled) int { return cmp.Compare(x.ID, y.ID) })
	l.read(Effect{Kind: ReadFleet, ID: in.id}, &unclaimed{instance: in.id, activities: waiting})
}

// fleetRead lists the instance if no worker can take one of its activities, and removes it from the list otherwise.
func (l *leases) fleetRead(number uint64, all *Served) {
	r := l.reads[number]
	delete(l.reads, number)
	if all == nil {
		return
	}
	in := l.owner.instances[r.instance] // nil: parked or dropped since
	for _, e := range r.activities {
		ended := in != nil && in.state != nil && in.state.Activity(e.ID) == nil
		if why := all.lacks(e); why != "" && !ended {
			l.unserved[r.instance] = true
			l.owner.emit(Effect{Kind: ListUnserved, ID: r.instance, Body: Stall{Kind: stallNoWorker, Reason: why, Since: e.At}})
			return
		}
	}
	l.unlist(r.instance)
}

// unlist removes an instance from the list of those with an activity that no worker can take.
func (l *leases) unlist(id string) {
	if l.unserved[id] {
		delete(l.unserved, id)
		l.owner.emit(Effect{Kind: UnlistUnserved, ID: id})
	}
}

// unclaimed holds activities of an instance that no worker has claimed: their queue may have lost their tasks, or no worker may have a
// handler for them. It holds everything that is needed when the answer arrives, because the instance may have been dropped by then.
type unclaimed struct {
	instance   string
	activities []*history.ActivityScheduled

	// For ReadQueueAge only.
	rec   *record.Record
	queue string
	sent  []int64 // time of the last sending, by activity, Unix ms
}

// read emits a ReadQueueAge or ReadFleet about activities.
func (l *leases) read(e Effect, about *unclaimed) {
	e.Number = l.owner.nextNumber()
	l.reads[e.Number] = about
	l.owner.emit(e)
}

// resendIfLost resends the unclaimed tasks that cannot be in their queue any more. Those sent before the stream lost its content are
// resent at once. For the others the age of the queue decides: a queue is first in, first out, and while its oldest task is older than
// the last sending, the task may still be in it.
func (l *leases) resendIfLost(in *instance, queue string, es []*history.ActivityScheduled) {
	rec, lost := in.rec, l.lostBefore()
	var unsure []*history.ActivityScheduled
	var sent []int64
	for _, e := range es {
		at, known := l.owner.commits.sent[sending{in.id, e.ID}]
		if !known {
			at = e.At // the earliest possible time; a superfluous copy is dropped when a worker claims it
		}
		if at < lost {
			l.owner.met[CountResent]++
			l.owner.commits.publish(in.id, rec, e)
			continue
		}
		unsure, sent = append(unsure, e), append(sent, at)
	}
	if len(unsure) == 0 {
		return
	}
	l.read(Effect{Kind: ReadQueueAge, ID: queue}, &unclaimed{instance: in.id, rec: rec, queue: queue, activities: unsure, sent: sent})
}

// lostBefore returns the time before which all tasks are lost, Unix ms by the owner's clock; 0: none are.
func (l *leases) lostBefore() int64 {
	if l.lost.IsZero() {
		return 0
	}
	return l.owner.clock.now() - l.owner.clock.wall.Sub(l.lost).Milliseconds() + sentSlack
}

// queueAgeRead resends the tasks that cannot be in their queue any more.
func (l *leases) queueAgeRead(number uint64, got QueueAge, err error) {
	q := l.reads[number]
	delete(l.reads, number)
	if err != nil {
		reportFailure(l.owner.log, "queue not inspected, retrying", err, "queue", q.queue)
		return
	}
	in := l.owner.instances[q.instance] // nil: parked or dropped since
	for i, e := range q.activities {
		ended := in != nil && in.phase == idle && in.state != nil && in.state.Activity(e.ID) == nil // while it is busy, the claim of the task decides
		if !ended && (!got.Some || got.At.UnixMilli() > q.sent[i]+sentSlack) {
			l.owner.met[CountResent]++
			l.owner.commits.publish(q.instance, q.rec, e)
		}
	}
}
