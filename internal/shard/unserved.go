package shard

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/queue"
)

// An activity that no worker has, or whose queue no worker reads, waits forever. Its instance is listed with the stalled ones, with
// what is missing. That is found by the reconciliation: an activity that no worker has claimed for a reconcile interval is compared with what the
// workers report. The list is in memory; a new owner has it after its first reconciliation.

// workersWait is how long the answers of the workers are collected.
const workersWait = time.Second

// fleet asks the workers what they have, at most once an interval for all partitions of the process.
type fleet struct {
	conn  *queue.Conn
	every time.Duration
	wg    sync.WaitGroup

	mu     sync.Mutex
	at     time.Time // of latest
	latest *core.Served
	asking []func(*core.Served)
}

func newFleet(conn *queue.Conn, every time.Duration) *fleet { return &fleet{conn: conn, every: every} }

// ask calls then, from any goroutine.
func (f *fleet) ask(ctx context.Context, then func(*core.Served)) {
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

func (f *fleet) read(ctx context.Context) *core.Served {
	began := time.Now()
	all, err := request.Workers(ctx, f.conn, workersWait)
	// Without any worker the server reports that at once. Silence may be a lack of permission.
	if err != nil || len(all) == 0 && time.Since(began) >= workersWait {
		return nil
	}
	s := &core.Served{Activities: map[string]bool{}, Queues: map[string]bool{}}
	for _, w := range all {
		for _, name := range w.Activities {
			s.Activities[name] = true
		}
		for _, name := range w.Queues {
			s.Queues[name] = true
		}
	}
	return s
}

// unserved are the instances whose activities no worker can take. It is safe for concurrent use.
type unserved struct {
	mu  sync.Mutex
	all map[string]core.Stall
}

func (u *unserved) set(id string, s core.Stall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[string]core.Stall)
	}
	u.all[id] = s
}

func (u *unserved) drop(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, id)
}

func (u *unserved) list() map[string]core.Stall {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.all)
}
