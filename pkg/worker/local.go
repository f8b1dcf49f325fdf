package worker

import (
	"context"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/transport"
)

// reserve reserves a slot for an activity that the orchestrator of this process is about to commit. It returns nil if the activity cannot
// run here now; its task is published to NATS then. See queue.Local.
func (q *intake) reserve(activity, instance string) *transport.Reservation {
	w := q.w
	a, ok := w.registry.Activity(activity)
	if !ok || w.nodes.impaired.Load() && w.nodes.silent(w.conn.PartitionOf(instance)) || !q.slots.reserve() {
		return nil
	}
	t := newTask(q, transport.Task{Name: activity, Queue: q.name, Instance: instance}, a)
	t.state.phase = reserved
	w.tasks.add(t)
	return &transport.Reservation{Token: t.token, Worker: w.cfg.Name, TTL: w.cfg.LeaseTTL, Run: t.runReserved, Drop: t.dropReserved}
}

// runReserved runs a task whose lease was created already claimed by this worker. The keeper holds the lease before runReserved returns,
// so that a hint of a later commit finds it.
func (t *task) runReserved(task transport.Task) {
	if t.w.codec().CanOpen(task.Payload) != nil {
		t.dropReserved(task)
		return
	}
	t.setTask(task)
	t.claims = 1
	t.w.count.claims[leases.Acquired].Inc()
	hold := t.hold()
	go func() {
		failpoint.Here("worker.claimed")
		t.run(hold)
	}()
}

// dropReserved ends a reserved task that does not run here.
func (t *task) dropReserved(task transport.Task) {
	t.setTask(task)
	t.w.leases.Release(leases.ReleaseRequest{Claim: t.claim(), Uncounted: true}, func(leases.Outcome, error) {}) // if this fails, the claim expires
	t.dismiss()
}

// setTask sets the task of a reservation, after the commit that scheduled it.
func (t *task) setTask(task transport.Task) {
	t.w.tasks.mu.Lock()
	t.task, t.ref = task, t.w.refOf(task)
	t.w.tasks.mu.Unlock()
}

// hold passes the acquired lease to the keeper, which renews it.
func (t *task) hold() *leases.Hold {
	return t.w.keeper.Hold(context.Background(), t.claim(), t.since)
}
