package worker

import (
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/lease"
)

// A sweep starts after sweepAfter consecutive claims that were answered GONE. Its first batch has sweepMin tasks, and each next one twice
// as many, up to sweepMax. A queue with only a few cancelled tasks does not start one.
const (
	sweepAfter = 16
	sweepMin   = 64
	sweepMax   = 512
)

// claimAnswered records the outcome of a claim, and starts a sweep after a run of cancelled tasks.
func (q *intake) claimAnswered(o leases.Outcome) {
	if q.w.nodes.impaired.Load() {
		q.returned.Store(0)
		q.puller.Next()
	}
	if o != leases.Gone {
		q.gone.Store(0)
		return
	}
	if q.gone.Add(1) < sweepAfter {
		return
	}
	select {
	case q.sweepSoon <- struct{}{}:
	default:
	}
}

func (q *intake) sweeper() {
	for {
		select {
		case <-q.ctx.Done():
			return
		case <-q.sweepSoon:
			q.sweep()
			q.gone.Store(0)
		}
	}
}

// sweep removes cancelled tasks from the head of the queue in batches, so that later tasks need not wait until each of them has occupied
// a slot. It reads leases and claims none, because it has no slots: required tasks return to the queue at once, for any worker, and end
// the sweep.
//
//	taken ──▶ lease read ──▶ gone: acked, reported as never started
//	                    └──▶ required, or no reply: returned
//
// The next batch is taken while the leases of the previous one are being read.
func (q *intake) sweep() {
	var previous chan bool // reports whether a task of the previous batch is required
	for n := sweepMin; ; n = min(2*n, sweepMax) {
		tasks, err := q.puller.Burst(q.ctx, n)
		required := previous != nil && <-previous
		if err != nil || required || len(tasks) < n {
			q.settle(tasks)
			return
		}
		previous = make(chan bool, 1)
		q.wg.Go(func() { previous <- q.settle(tasks) })
	}
}

// settle acks the tasks whose leases are gone and returns the others to the queue. It reports whether one of them is, or may be,
// required.
func (q *intake) settle(tasks []*transport.Delivery) (required bool) {
	type batch struct {
		tasks []*transport.Delivery
		refs  []leases.Ref
		out   []leases.Outcome
		err   error
	}
	batches := make(map[int]*batch)
	var all []*batch
	for _, d := range tasks {
		ref := q.w.refOf(d.Task)
		p := batches[ref.Part]
		if p == nil || len(p.tasks) == leases.MaxRequired {
			p = &batch{}
			batches[ref.Part], all = p, append(all, p)
		}
		p.tasks, p.refs = append(p.tasks, d), append(p.refs, ref)
	}
	replies := make(chan struct{}, len(all))
	for _, p := range all {
		q.w.leases.Required(p.refs, func(out []leases.Outcome, err error) {
			p.out, p.err = out, err
			replies <- struct{}{}
		})
	}
	for range all {
		select {
		case <-replies:
		case <-q.ctx.Done(): // an unavailable Redis may take long to reply
			for _, d := range tasks {
				d.Nak()
			}
			return true
		}
	}
	for _, p := range all {
		q.w.health.redisReplied(p.err)
		for i, d := range p.tasks {
			switch {
			case p.err != nil:
				d.Return()
				required = true
			case p.out[i] == leases.Gone:
				d.Ack()
				q.w.count.claims[leases.Gone].Inc()
				q.w.reportOn(p.refs[i], lease.NeverStarted, 0)
			default:
				d.Nak()
				required = true
			}
		}
	}
	return required
}
