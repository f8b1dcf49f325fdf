package shard

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/record"
)

const (
	firstSample = time.Second // by then the process has claimed its partitions
	sampleEvery = 15 * time.Second
)

// sample sets the gauges of instances, task queues and objects until ctx ends. A failed reading leaves the previous values.
func (s *Process) sample(ctx context.Context, keeper *partition.Keeper) {
	for pause := firstSample; ; pause = sampleEvery {
		outage.Sleep(ctx, pause)
		if ctx.Err() != nil {
			return
		}
		owned := keeper.Owned()
		s.sampleInstances(ctx, owned)
		first := len(owned) > 0 && owned[0] == 0
		s.sampleQueues(ctx, first)
		s.sampleObjects(ctx, first)
	}
}

// sampleInstances counts the instances of the partitions. The reads of all partitions are sent together, so that an idle process wakes up
// for few replies.
func (s *Process) sampleInstances(ctx context.Context, owned []int) {
	var pending, running, stalled atomic.Uint64
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range owned {
		for count, read := range map[*atomic.Uint64]func() (uint64, error){
			&pending: func() (uint64, error) { return s.store.Count(ctx, p, record.Pending) },
			&running: func() (uint64, error) { return s.store.Count(ctx, p, record.Running) },
			&stalled: func() (uint64, error) { return s.store.StalledCount(ctx, p) },
		} {
			g.Go(func() error {
				n, err := read()
				count.Add(n)
				return err
			})
		}
	}
	if g.Wait() != nil {
		return
	}
	for status, n := range map[string]*atomic.Uint64{string(record.Pending): &pending, string(record.Running): &running, "stalled": &stalled} {
		s.met.instances.WithLabelValues(status).Set(float64(n.Load()))
	}
}

// sampleObjects reads the size of the object store, in the process that owns partition 0.
func (s *Process) sampleObjects(ctx context.Context, here bool) {
	var bytes uint64
	var used float64
	if here && s.cfg.Codec.Stores() {
		var err error
		if bytes, used, err = s.conn.ObjectsSize(ctx); err != nil {
			return
		}
	}
	s.met.objectsBytes.Set(float64(bytes))
	s.met.objectsFill.Set(used)
}

// sampleQueues reads the backlog of TASKS, in the process that owns partition 0. Queues that no worker has reported are added up under
// promx.Other.
func (s *Process) sampleQueues(ctx context.Context, here bool) {
	if !here {
		s.met.queueTasks.Reset()
		s.met.queueAge.Reset()
		return
	}
	backlog, err := s.conn.Backlog(ctx)
	if err != nil {
		return
	}
	reported := make(chan *core.Served, 1)
	s.fleet.get(ctx, func(f *core.Served) { reported <- f })
	tasks := map[string]uint64{promx.Other: 0}
	ages := map[string]time.Duration{}
	fleet := <-reported
	if fleet != nil {
		for name := range fleet.Queues {
			tasks[name], ages[name] = 0, 0
		}
	}
	for name, n := range backlog {
		if _, known := ages[name]; !known {
			tasks[promx.Other] += n
			continue
		}
		tasks[name] = n
		if at, some, err := s.conn.OldestTask(ctx, name); err == nil && some {
			ages[name] = max(0, time.Since(at))
		}
	}
	s.met.queueTasks.Reset()
	s.met.queueAge.Reset()
	for name, n := range tasks {
		s.met.queueTasks.WithLabelValues(name).Set(float64(n))
	}
	for name, age := range ages {
		s.met.queueAge.WithLabelValues(name).Set(age.Seconds())
	}
}
