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
func (a *leases) findUnserved(in *instance, got record.Reconciled) {
	var waiting []*history.ActivityScheduled
	for _, l := range got.Leases {
		e := in.state.Activity(l.Activity)
		if l.Status == record.LeaseUnclaimed && e != nil && got.Now-e.At >= a.owner.cfg.ReconcileInterval.Milliseconds() {
			waiting = append(waiting, e)
		}
	}
	if len(waiting) == 0 {
		a.unlist(in.id)
		return
	}
	slices.SortFunc(waiting, func(x, y *history.ActivityScheduled) int { return cmp.Compare(x.ID, y.ID) })
	a.ask(Effect{Kind: ReadFleet, ID: in.id}, &unclaimed{instance: in.id, activities: waiting})
}

// fleetRead lists the instance with what no worker has, or takes it from the list.
func (a *leases) fleetRead(number uint64, all *Served) {
	r := a.asked[number]
	delete(a.asked, number)
	if all == nil { // it is not known what the workers have
		return
	}
	in := a.owner.instances[r.instance] // nil: parked or forgotten since
	for _, e := range r.activities {
		ended := in != nil && in.state != nil && in.state.Activity(e.ID) == nil
		if why := all.lacks(e); why != "" && !ended {
			a.unserved[r.instance] = true
			a.owner.emit(Effect{Kind: ListUnserved, ID: r.instance, Body: Stall{Kind: stallNoWorker, Why: why, Since: e.At}})
			return
		}
	}
	a.unlist(r.instance)
}

// unlist takes an instance from the list of those that no worker can serve.
func (a *leases) unlist(id string) {
	if a.unserved[id] {
		delete(a.unserved, id)
		a.owner.emit(Effect{Kind: UnlistUnserved, ID: id})
	}
}
