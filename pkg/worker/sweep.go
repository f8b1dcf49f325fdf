package worker

import (
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

// A sweep begins when so many claims in a row have found their lease gone, and takes so
// many tasks at first, and then twice as many each time. A queue with a few cancelled
// tasks among the others does not come to that.
const (
	sweepAfter = 16
	sweepFirst = 64
	sweepMost  = 512
)

// answered notes how a claim was answered.
func (q *intake) answered(o lease.Outcome) {
	if q.w.reach.some.Load() {
		q.givenBack.Store(0)
		q.puller.Next()
	}
	if o != lease.Gone {
		q.gone.Store(0)
		return
	}
	if q.gone.Add(1) < sweepAfter {
		return
	}
	select {
	case q.stale <- struct{}{}:
	default:
	}
}

func (q *intake) sweeper() {
	for {
		select {
		case <-q.ctx.Done():
			return
		case <-q.stale:
			q.sweep()
			q.gone.Store(0)
		}
	}
}

// sweep takes cancelled tasks away from the head of the queue, many at a time, so that
// the live ones behind them need not wait until each has had a place here. It only looks
// at leases, and claims none, for it has no places to offer: what is wanted goes back to
// the queue at once, to whoever asks, and the sweep is over.
//
//	taken ──▶ looked at ──▶ gone: acked, reported as never started
//	                   └──▶ wanted, or no answer: given back
//
// While some are looked at the next ones are taken.
func (q *intake) sweep() {
	var looked chan bool // at what was taken before
	for n := sweepFirst; ; n = min(2*n, sweepMost) {
		tasks, err := q.puller.Burst(q.ctx, n)
		wanted := looked != nil && <-looked
		if err != nil || wanted || len(tasks) < n {
			q.look(tasks)
			return
		}
		looked = make(chan bool, 1)
		q.wg.Go(func() { looked <- q.look(tasks) })
	}
}

// look answers for every task, and reports whether one of them is wanted or may be.
func (q *intake) look(tasks []*queue.Delivery) (wanted bool) {
	type pile struct {
		tasks []*queue.Delivery
		refs  []lease.Ref
		out   []lease.Outcome
		err   error
	}
	piles := make(map[int]*pile)
	var all []*pile
	for _, d := range tasks {
		ref := q.w.refOf(d.Task)
		p := piles[ref.Part]
		if p == nil || len(p.tasks) == lease.MaxRequired {
			p = &pile{}
			piles[ref.Part], all = p, append(all, p)
		}
		p.tasks, p.refs = append(p.tasks, d), append(p.refs, ref)
	}
	answers := make(chan struct{}, len(all))
	for _, p := range all {
		q.w.leases.Required(p.refs, func(out []lease.Outcome, err error) {
			p.out, p.err = out, err
			answers <- struct{}{}
		})
	}
	for range all {
		select {
		case <-answers:
		case <-q.ctx.Done(): // of a Redis that is away there may be none for long
			for _, d := range tasks {
				d.Nak()
			}
			return true
		}
	}
	for _, p := range all {
		q.w.redisAnswered(p.err)
		for i, d := range p.tasks {
			switch {
			case p.err != nil:
				d.GiveBack()
				wanted = true
			case p.out[i] == lease.Gone:
				d.Ack()
				q.w.count.claims[lease.Gone].Inc()
				q.w.reportOn(p.refs[i], lease.NeverStarted, 0)
			default:
				d.Nak()
				wanted = true
			}
		}
	}
	return wanted
}
