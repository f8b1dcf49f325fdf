package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Served is what the workers have: nil is not known.
type Served struct {
	Activities, Queues map[string]bool
}

// lacks describes what is missing for an activity, empty for nothing.
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

// findUnserved looks among the leases of an instance for activities that no worker can take.
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
	l.ask(Effect{Kind: ReadFleet, ID: in.id}, &unclaimed{instance: in.id, activities: waiting})
}

// fleetRead lists the instance with what no worker has, or takes it from the list.
func (l *leases) fleetRead(number uint64, all *Served) {
	r := l.asked[number]
	delete(l.asked, number)
	if all == nil { // it is not known what the workers have
		return
	}
	in := l.owner.instances[r.instance] // nil: parked or forgotten since
	for _, e := range r.activities {
		ended := in != nil && in.state != nil && in.state.Activity(e.ID) == nil
		if why := all.lacks(e); why != "" && !ended {
			l.unserved[r.instance] = true
			l.owner.emit(Effect{Kind: ListUnserved, ID: r.instance, Body: Stall{Kind: stallNoWorker, Why: why, Since: e.At}})
			return
		}
	}
	l.unlist(r.instance)
}

// unlist takes an instance from the list of those that no worker can serve.
func (l *leases) unlist(id string) {
	if l.unserved[id] {
		delete(l.unserved, id)
		l.owner.emit(Effect{Kind: UnlistUnserved, ID: id})
	}
}

// unclaimed are activities of an instance that no worker has claimed. Their queue may have lost their tasks, or no worker may have them.
type unclaimed struct {
	instance   string
	activities []*history.ActivityScheduled
	rec        *record.Record // of a question to the queue, and the rest
	queue      string
	sent       []int64 // when, Unix ms
}

// ask asks a queue or the workers about activities.
func (l *leases) ask(e Effect, about *unclaimed) {
	e.Number = l.owner.nextNumber()
	l.asked[e.Number] = about
	l.owner.emit(e)
}

// resendIfLost finds the tasks that no worker has claimed and that cannot be in their queue
// any more: those sent before the stream has lost its content are not. Of the others: queues are first in, first out, and
// as long as the oldest task in the queue is older than the last sending, ours may be behind it.
//
// The instance may have been parked or forgotten before the queue has answered, so what is needed of it is kept here.
func (l *leases) resendIfLost(in *instance, queue string, es []*history.ActivityScheduled) {
	rec, lost := in.rec, l.lostBefore()
	var unsure []*history.ActivityScheduled
	var sent []int64
	for _, e := range es {
		at, known := l.owner.commits.sent[sending{in.id, e.ID}]
		if !known {
			at = e.At // not sent before that; and a copy too many is dropped by its claim
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
	l.ask(Effect{Kind: ReadQueueAge, ID: queue}, &unclaimed{instance: in.id, rec: rec, queue: queue, activities: unsure, sent: sent})
}

// lostBefore is the time before which all tasks are lost, Unix ms by the clock; 0: none are.
func (l *leases) lostBefore() int64 {
	if l.lost.IsZero() {
		return 0
	}
	return l.owner.clock.now() - l.owner.clock.wall.Sub(l.lost).Milliseconds() + sentSlack
}

// queueAgeRead publishes again what cannot be in the queue any more.
func (l *leases) queueAgeRead(number uint64, got QueueAge, err error) {
	q := l.asked[number]
	delete(l.asked, number)
	if err != nil {
		reportFailure(l.owner.log, "queue not inspected, retrying", err, "queue", q.queue)
		return
	}
	in := l.owner.instances[q.instance] // nil: parked or forgotten since
	for i, e := range q.activities {
		ended := in != nil && in.phase == idle && in.state != nil && in.state.Activity(e.ID) == nil // while it is busy, the claim of the task decides
		if !ended && (!got.Some || got.At.UnixMilli() > q.sent[i]+sentSlack) {
			l.owner.met[CountResent]++
			l.owner.commits.publish(q.instance, q.rec, e)
		}
	}
}
