package stack

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// callTimeout is the timeout of one request to a server that may be down.
const callTimeout = 2 * time.Second

// Fleet is a namespace: its processes, a client, and access to the stored state.
type Fleet struct {
	Namespace  string
	Partitions int
	Env        []string   // environment of each process
	Processes  []*Process // in the order of their starts
	Client     *client.Client
	Store      *store.Store

	t testing.TB
}

// NewFleet prepares a fleet without processes. rdb reads its stored state.
func NewFleet(t testing.TB, namespace string, partitions int, rdb redis.UniversalClient, env ...string) *Fleet {
	t.Helper()
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	return &Fleet{Namespace: namespace, Partitions: partitions, Env: env, Store: store.New(run, redisx.NewSpace(namespace)), t: t}
}

// Process starts a process of the fleet. path is its program; env is added to the environment of the fleet.
func (f *Fleet) Process(name, path string, args []string, env ...string) *Process {
	f.t.Helper()
	all := append(append([]string{}, f.Env...), env...)
	p := NewProcess(f.t, name, path, args, all)
	p.Start()
	f.Processes = append(f.Processes, p)
	return p
}

// Join waits until the namespace exists, and opens it. Further calls do nothing.
func (f *Fleet) Join(nc *nats.Conn, o client.Options) {
	f.t.Helper()
	if f.Client != nil {
		return
	}
	o.Namespace = f.Namespace
	poll.Until(f.t, clusterWithin, "the namespace exists", func() bool {
		ctx, stop := context.WithTimeout(f.t.Context(), callTimeout)
		defer stop()
		c, err := client.New(ctx, nc, o)
		if err != nil {
			return false
		}
		f.Client = c
		f.t.Cleanup(c.Close)
		return true
	})
}

// Record returns the record of an instance, or nil if there is none or Redis does not answer.
func (f *Fleet) Record(instance string) *record.Record {
	ctx, stop := context.WithTimeout(context.Background(), callTimeout)
	defer stop()
	rec, err := f.Store.Record(ctx, f.PartitionOf(instance), instance)
	if err != nil {
		return nil
	}
	return rec
}

// History returns the events of an execution of an instance.
func (f *Fleet) History(instance string, execution uint64) []history.Event {
	f.t.Helper()
	events, err := f.Store.History(f.t.Context(), f.PartitionOf(instance), instance, execution)
	if err != nil {
		f.t.Fatal(err)
	}
	return events
}

// PartitionOf returns the partition of an instance.
func (f *Fleet) PartitionOf(instance string) int {
	return transport.PartitionOf(instance, f.Partitions)
}

// Ended waits until an instance has ended, and returns its record.
func (f *Fleet) Ended(within time.Duration, instance string) (rec *record.Record) {
	f.t.Helper()
	poll.Until(f.t, within, instance+" has ended", func() bool {
		rec = f.Record(instance)
		return rec != nil && rec.Status.Ended()
	})
	return rec
}

// End waits until an instance has ended, and returns its last event.
func (f *Fleet) End(within time.Duration, instance string) history.Event {
	f.t.Helper()
	end, err := f.Ended(within, instance).EndEvent()
	if err != nil {
		f.t.Fatal(err)
	}
	return end
}

// Alive fails the test for each process that has ended.
func (f *Fleet) Alive() {
	f.t.Helper()
	for _, p := range f.Processes {
		select {
		case <-p.Ended():
			f.t.Errorf("%s has ended: %.4000s", filepath.Base(p.Name()), p.Log())
		default:
		}
	}
}

// Check runs the invariant checker of production, and fails the test for each finding.
func (f *Fleet) Check() store.CheckResult {
	f.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), clusterWithin)
	defer stop()
	seen, err := f.Store.Check(ctx, f.PartitionOf, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, finding := range seen.Findings {
		f.t.Errorf("invariant broken: %s", finding)
	}
	return seen
}
