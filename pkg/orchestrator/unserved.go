package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// An activity that no worker has, or whose queue no worker reads, waits forever. Its instance is listed with the stalled ones, with
// what is missing. That is found by the reconciliation: an activity that nobody has claimed for a reconciliation interval is compared with what the
// workers report. The list is in memory; a new owner has it again after its first look.

// workersWait is how long the answers of the workers are collected.
const workersWait = time.Second

// fleet asks the workers what they have, at most once an interval for all partitions of the process.
type fleet struct {
	conn  *queue.Conn
	every time.Duration
	wg    sync.WaitGroup

	mu     sync.Mutex
	at     time.Time // of latest
	latest *served
	asking []func(*served)
}

// served is what the workers have: nil is not known.
type served struct {
	activities, queues map[string]bool
}

func newFleet(conn *queue.Conn, every time.Duration) *fleet { return &fleet{conn: conn, every: every} }

// ask calls then, from any goroutine.
func (f *fleet) ask(ctx context.Context, then func(*served)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latest != nil && time.Since(f.at) < f.every {
		then(f.latest)
		return
	}
	if f.asking = append(f.asking, then); len(f.asking) > 1 {
		return
	}
	f.wg.Go(func() {
		s := f.read(ctx)
		f.mu.Lock()
		all := f.asking
		f.asking, f.latest, f.at = nil, s, time.Now()
		f.mu.Unlock()
		for _, then := range all {
			then(s)
		}
	})
}

func (f *fleet) read(ctx context.Context) *served {
	began := time.Now()
	all, err := request.Workers(ctx, f.conn, workersWait)
	// Without any worker the server says so at once. Silence may be a lack of permission.
	if err != nil || len(all) == 0 && time.Since(began) >= workersWait {
		return nil
	}
	s := &served{activities: map[string]bool{}, queues: map[string]bool{}}
	for _, w := range all {
		for _, name := range w.Activities {
			s.activities[name] = true
		}
		for _, name := range w.Queues {
			s.queues[name] = true
		}
	}
	return s
}

// lacks says what is missing for an activity, empty for nothing.
func (s *served) lacks(e *history.ActivityScheduled) string {
	switch {
	case !s.queues[e.Queue]:
		return fmt.Sprintf("no worker reads queue %q, where activity %q waits; start a worker that has the activity", e.Queue, e.Name)
	case !s.activities[e.Name]:
		return fmt.Sprintf("no worker has activity %q, which waits in queue %q; start a worker that has it", e.Name, e.Queue)
	default:
		return ""
	}
}

// unserved are the instances whose activities no worker can take. It is safe for concurrent use.
type unserved struct {
	mu  sync.Mutex
	all map[string]stall
}

func (u *unserved) set(id string, s stall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[string]stall)
	}
	u.all[id] = s
}

func (u *unserved) drop(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, id)
}

func (u *unserved) list() map[string]stall {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.all)
}

// findUnserved looks among the leases of an instance for activities that no worker can take.
func (a *leases) findUnserved(in *instance, got store.Reconciled) {
	var waiting []*history.ActivityScheduled
	for _, l := range got.Leases {
		e := in.state.Activity(l.Activity)
		if l.Status == store.LeaseUnclaimed && e != nil && got.Now-e.At >= a.cfg.Look.Milliseconds() {
			waiting = append(waiting, e)
		}
	}
	if len(waiting) == 0 {
		a.leases.unserved.drop(in.id)
		return
	}
	slices.SortFunc(waiting, func(x, y *history.ActivityScheduled) int { return cmp.Compare(x.ID, y.ID) })
	a.emit(effect{kind: readFleet, id: in.id, body: &fleetReport{waiting: waiting}})
}

// fleetRead lists the instance with what no worker has, or takes it from the list.
func (a *leases) fleetRead(id string, r *fleetReport) {
	in := a.instances[id] // nil: parked or forgotten since
	for _, e := range r.waiting {
		ended := in != nil && in.phase != turning && in.state != nil && in.state.Activity(e.ID) == nil
		if why := r.served.lacks(e); why != "" && !ended {
			a.leases.unserved.set(id, stall{Kind: stallNoWorker, Why: why, Since: e.At})
			return
		}
	}
	a.leases.unserved.drop(id)
}
