package shard

import (
	"context"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	watchTick  = 250 * time.Millisecond
	trimEvery  = time.Minute
	trimWindow = 10 * time.Minute
	fillEvery  = 2 * time.Second // interval at which the size of INPUTS is read
	nearlyFull = 0.9             // fraction of the size limit of INPUTS at which a warning is logged
)

// turners are the turners of a process. One watchdog ticks them all while at least one of them has a job.
type turners struct {
	limit int // ticks after which a job is abandoned
	ticks *timers.Ticker

	mu  sync.Mutex
	all map[*turner]struct{}
}

func newTurners(limit time.Duration) *turners {
	return &turners{limit: max(int(limit/watchTick), 2), ticks: timers.NewTicker(watchTick), all: make(map[*turner]struct{})}
}

func (ts *turners) add(t *turner) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all[t] = struct{}{}
}

func (ts *turners) remove(t *turner) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.all, t)
}

// watch is the watchdog; it ends with ctx. A process that was stopped for an hour ticks once when it resumes.
func (ts *turners) watch(ctx context.Context) {
	defer ts.ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ts.ticks.C:
		}
		ts.ticks.Received()
		ts.mu.Lock()
		for t := range ts.all {
			if t.tick(ts.limit) {
				ts.ticks.Require()
			}
		}
		ts.mu.Unlock()
	}
}

// trim removes from INPUTS what all partitions have ingested, except for the last trimWindow: every minute, and sooner if the
// stream fills up. Only the owner of partition 0 trims.
func (s *Process) trim(ctx context.Context, keeper *partition.Keeper) {
	for next := time.Now().Add(trimEvery); outage.Sleep(ctx, timers.Until(fillEvery)); {
		if owned := keeper.Owned(); len(owned) == 0 || owned[0] != 0 {
			continue
		}
		fill, err := s.conn.Fill(ctx)
		if err == nil {
			s.met.inputsFill.Set(fill)
			if fill < transport.HalfFull && time.Now().Before(next) {
				continue
			}
			next = time.Now().Add(trimEvery)
			err = s.trimNow(ctx, fill)
		}
		if err != nil && ctx.Err() == nil {
			logFailure(s.log, "inputs not trimmed, retrying", err)
		}
	}
}

func (s *Process) trimNow(ctx context.Context, fill float64) error {
	if fill >= nearlyFull {
		s.log.Warn("inputs stream nearly full", "percent", int(100*fill))
	}
	lowest, ok, err := s.lowest(ctx)
	if err != nil || !ok {
		return err
	}
	n, err := s.conn.Trim(ctx, lowest, trimWindow)
	if n > 0 {
		s.log.Debug("inputs trimmed", "messages", n, "up_to", lowest.Seq)
	}
	return err
}

// lowest returns the position up to which all partitions have ingested; false if one of them has not ingested anything yet.
func (s *Process) lowest(ctx context.Context) (history.Position, bool, error) {
	var low history.Position
	for p := range s.cfg.Partitions {
		at, err := s.store.Applied(ctx, p)
		if err != nil {
			return low, false, err
		}
		if at.Seq == 0 {
			return low, false, nil
		}
		if p == 0 || at.Time < low.Time {
			low = at
		}
	}
	return low, true, nil
}
