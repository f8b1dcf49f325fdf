package shard

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
)

// An activity that no worker registers, or whose queue no worker reads, would wait forever. Its instance is listed among the stalled ones,
// with what is missing. Reconciliation detects it: an activity that no worker has claimed for a reconcile interval is compared with what the
// workers report. The list is kept in memory; a new owner rebuilds it with its first reconciliations.

// workersWait is how long the answers of workers are collected.
const workersWait = time.Second

// fleet requests from the workers what they serve, at most once per interval for all partitions of the process.
type fleet struct {
	conn  *transport.Conn
	every time.Duration
	wg    sync.WaitGroup

	mu      sync.Mutex
	at      time.Time // when latest was read
	latest  *core.Served
	waiting []func(*core.Served)
}

func newFleet(conn *transport.Conn, every time.Duration) *fleet {
	return &fleet{conn: conn, every: every}
}

// get calls then with what the workers serve, on any goroutine; nil: it could not be read.
func (f *fleet) get(ctx context.Context, then func(*core.Served)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.latest != nil && time.Since(f.at) < f.every {
		then(f.latest)
		return
	}
	if f.waiting = append(f.waiting, then); len(f.waiting) > 1 {
		return
	}
	f.wg.Go(func() {
		s := f.read(ctx)
		f.mu.Lock()
		all := f.waiting
		f.waiting, f.latest, f.at = nil, s, time.Now()
		f.mu.Unlock()
		for _, then := range all {
			then(s)
		}
	})
}

func (f *fleet) read(ctx context.Context) *core.Served {
	began := time.Now()
	all, err := request.Workers(ctx, f.conn, workersWait)
	// Without any worker the server replies at once. Silence may mean that a permission is missing.
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

// unserved are the instances with activities that no worker can take. It is safe for concurrent use.
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
