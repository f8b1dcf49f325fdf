package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/examples"
)

const (
	standstill    = 20 * time.Millisecond  // between instances where many stand still for seconds
	electionAsk   = 100 * time.Millisecond // for one answer of a leader
	workerSilence = 5 * time.Millisecond   // of a worker that is there
)

// fault is one thing that can happen to a fleet.
type fault struct {
	name   string
	target time.Duration // what we mean to reach
	since  string        // what the time is counted from
	nats   int           // servers; zero: one
	redis  bool          // a Redis Cluster
	held   time.Duration // target for instances that were under way on the member concerned; zero: the same as for all
	every  time.Duration // between instances; zero: canaryEvery. Longer for outages of seconds: their backlog is not what is measured
	// inject does it and returns from when on an instance has no reason to wait any more.
	inject func(ctx context.Context, f *recoverFleet, b *bench, round int) (time.Time, error)
	// heal restores the fleet once it has recovered.
	heal func(ctx context.Context, f *recoverFleet, b *bench) error
}

// faults are in the order of the table.
func faults() []fault {
	return []fault{
		{name: "orchestrator-killed", target: 5500 * time.Millisecond, since: "kill -9", every: standstill, inject: killOrchestrator, heal: healMembers},
		{name: "orchestrators-killed", target: 5500 * time.Millisecond, since: "their start", every: standstill, inject: killAllOrchestrators, heal: healMembers},
		{name: "hand-over", target: 100 * time.Millisecond, since: "SIGTERM", inject: stopOneOrchestrator, heal: healMembers},
		{name: "nats-cut", target: 6 * time.Second, since: "cut from NATS", every: standstill, inject: network(orchestrators, func(m *faultyMember) { m.nats.Cut() }), heal: healMembers},
		{name: "nats-black-hole", target: 6 * time.Second, since: "black hole to NATS", every: standstill, inject: network(orchestrators, func(m *faultyMember) { m.nats.BlackHole() }), heal: healMembers},
		{name: "redis-cut", target: 6 * time.Second, since: "cut from Redis", every: standstill, inject: network(orchestrators, func(m *faultyMember) { m.redis.Cut() }), heal: healMembers},
		{name: "redis-black-hole", target: 6 * time.Second, since: "black hole to Redis", every: standstill, inject: network(orchestrators, func(m *faultyMember) { m.redis.BlackHole() }), heal: healMembers},
		{name: "worker-killed", target: 50 * time.Millisecond, held: 11 * time.Second, since: "NATS drops it", inject: killWorker, heal: healMembers},
		{name: "worker-nats-cut", target: 3 * time.Second, held: 11 * time.Second, since: "cut from NATS", inject: network(workers, func(m *faultyMember) { m.nats.Cut() }), heal: healMembers},
		{name: "worker-nats-black-hole", target: 3 * time.Second, held: 11 * time.Second, since: "black hole to NATS", inject: network(workers, func(m *faultyMember) { m.nats.BlackHole() }), heal: healMembers},
		{name: "worker-redis-cut", target: 3 * time.Second, held: 11 * time.Second, since: "cut from Redis", inject: network(workers, func(m *faultyMember) { m.redis.Cut() }), heal: healMembers},
		{name: "worker-redis-black-hole", target: 3 * time.Second, held: 11 * time.Second, since: "black hole to Redis", inject: network(workers, func(m *faultyMember) { m.redis.BlackHole() }), heal: healMembers},
		{name: "redis-restarted", target: time.Second, since: "Redis answers", inject: restartRedis, heal: healMembers},
		{name: "nats-restarted", target: time.Second, since: "NATS listens", inject: restartNATS, heal: healMembers},
		{name: "tasks-lost", target: 2 * time.Second, since: "TASKS deleted", inject: deleteTasks, heal: healMembers},
		{name: "cluster-master-killed", target: 2 * time.Second, since: "election", redis: true, every: standstill, inject: killClusterMaster, heal: healCluster},
		{name: "jetstream-leader-killed", target: time.Second, since: "last election", nats: 3, every: standstill, inject: killStreamLeader, heal: healNATS},
	}
}

func orchestrators(f *recoverFleet) []*faultyMember { return f.orchestrators }
func workers(f *recoverFleet) []*faultyMember       { return f.workers }

func killOrchestrator(_ context.Context, f *recoverFleet, _ *bench, round int) (time.Time, error) {
	err := f.orchestrators[round%len(f.orchestrators)].kill()
	return time.Now(), err
}

// killWorker returns when NATS has noticed that the worker is gone. Until then it is given tasks, which it holds as much as those
// that it has begun.
func killWorker(ctx context.Context, f *recoverFleet, b *bench, round int) (time.Time, error) {
	m := f.workers[round%len(f.workers)]
	if err := m.kill(); err != nil {
		return time.Time{}, err
	}
	err := until(ctx, func() bool { return !b.hears(m.name) })
	return time.Now(), err
}

// hears reports whether a worker is subscribed to NATS: a request that nobody can hear is answered as such at once.
func (b *bench) hears(worker string) bool {
	_, err := b.nc.Request("pawl."+b.ns+".hint."+worker, nil, workerSilence)
	return !errors.Is(err, nats.ErrNoResponders)
}

func killAllOrchestrators(_ context.Context, f *recoverFleet, _ *bench, _ int) (time.Time, error) {
	var errs []error
	for _, m := range f.orchestrators {
		errs = append(errs, m.kill())
	}
	now := time.Now()
	for _, m := range f.orchestrators {
		errs = append(errs, m.start())
	}
	return now, errors.Join(errs...)
}

func stopOneOrchestrator(_ context.Context, f *recoverFleet, _ *bench, round int) (time.Time, error) {
	m := f.orchestrators[round%len(f.orchestrators)]
	now := time.Now()
	return now, m.stop()
}

// network injects a fault into the network of one member.
func network(of func(*recoverFleet) []*faultyMember, cut func(*faultyMember)) func(context.Context, *recoverFleet, *bench, int) (time.Time, error) {
	return func(_ context.Context, f *recoverFleet, _ *bench, round int) (time.Time, error) {
		ms := of(f)
		now := time.Now()
		cut(ms[round%len(ms)])
		return now, nil
	}
}

func restartRedis(ctx context.Context, f *recoverFleet, _ *bench, _ int) (time.Time, error) {
	one, ok := f.redis.(*oneRedis)
	if !ok {
		return time.Time{}, errors.New("there is a cluster")
	}
	err := one.restart(ctx)
	return time.Now(), err
}

func restartNATS(ctx context.Context, f *recoverFleet, _ *bench, _ int) (time.Time, error) {
	if err := f.nats.nodes[0].kill(); err != nil {
		return time.Time{}, err
	}
	err := f.nats.nodes[0].start(ctx)
	return time.Now(), err
}

func deleteTasks(ctx context.Context, _ *recoverFleet, b *bench, _ int) (time.Time, error) {
	js, err := jetstream.New(b.nc)
	if err != nil {
		return time.Time{}, err
	}
	err = js.DeleteStream(ctx, b.stream("TASKS"))
	return time.Now(), err
}

// killClusterMaster kills one for good: heal starts it again only when the fleet has recovered, and it is a replica then.
func killClusterMaster(ctx context.Context, f *recoverFleet, _ *bench, round int) (time.Time, error) {
	c, ok := f.redis.(*redisCluster)
	if !ok {
		return time.Time{}, errors.New("there is no cluster")
	}
	var masters, replicas []*redisNode
	for _, n := range c.nodes {
		if n.master(ctx) {
			masters = append(masters, n)
		} else {
			replicas = append(replicas, n)
		}
	}
	if len(masters) != clusterMasters {
		return time.Time{}, fmt.Errorf("%d masters", len(masters))
	}
	masters[round%len(masters)].kill()
	err := until(ctx, func() bool {
		for _, n := range replicas {
			if n.master(ctx) {
				return true
			}
		}
		return false
	})
	return time.Now(), err
}

// killStreamLeader kills the server that leads INPUTS, and waits until nothing that an instance needs is without a leader: the
// JetStream of the cluster, both streams, and the consumer of the task queue.
func killStreamLeader(ctx context.Context, f *recoverFleet, b *bench, _ int) (time.Time, error) {
	info, _ := b.replicas(ctx, "INPUTS")
	n := f.nats.node(info.Leader)
	if n == nil {
		return time.Time{}, fmt.Errorf("the leader of %s is %q, which is no server of ours", b.stream("INPUTS"), info.Leader)
	}
	if err := n.kill(); err != nil {
		return time.Time{}, err
	}
	return b.elected(ctx, n.name)
}

// elected waits until everything has a leader other than the server that was killed, and returns when the last one was seen.
func (b *bench) elected(ctx context.Context, dead string) (time.Time, error) {
	js, err := jetstream.New(b.nc)
	if err != nil {
		return time.Time{}, err
	}
	lead := func(info *jetstream.ClusterInfo) bool { return info != nil && info.Leader != "" && info.Leader != dead }
	all := []func(context.Context) bool{func(ctx context.Context) bool {
		_, err := js.AccountInfo(ctx) // answered by the leader of the cluster's JetStream
		return err == nil
	}}
	for _, kind := range []string{"INPUTS", "TASKS"} {
		all = append(all, func(ctx context.Context) bool {
			s, err := js.Stream(ctx, b.stream(kind))
			return err == nil && lead(s.CachedInfo().Cluster)
		})
	}
	all = append(all, func(ctx context.Context) bool {
		c, err := js.Consumer(ctx, b.stream("TASKS"), examples.Greet.Queue()) // has the name of its queue
		return err == nil && lead(c.CachedInfo().Cluster)
	})
	var g errgroup.Group
	for _, one := range all { // side by side: a request without a leader is not answered
		g.Go(func() error {
			return until(ctx, func() bool {
				ask, stop := context.WithTimeout(ctx, electionAsk)
				defer stop()
				return one(ask)
			})
		})
	}
	err = g.Wait()
	return time.Now(), err
}

// replicas returns what JetStream reports about the servers of a stream.
func (b *bench) replicas(ctx context.Context, kind string) (jetstream.ClusterInfo, bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	js, err := jetstream.New(b.nc)
	if err != nil {
		return jetstream.ClusterInfo{}, false
	}
	s, err := js.Stream(ctx, b.stream(kind))
	if err != nil || s.CachedInfo().Cluster == nil {
		return jetstream.ClusterInfo{}, false
	}
	return *s.CachedInfo().Cluster, true
}

func healMembers(_ context.Context, f *recoverFleet, _ *bench) error {
	var errs []error
	for _, m := range append(append([]*faultyMember(nil), f.orchestrators...), f.workers...) {
		errs = append(errs, m.heal())
	}
	return errors.Join(errs...)
}

func healCluster(ctx context.Context, f *recoverFleet, b *bench) error {
	c, ok := f.redis.(*redisCluster)
	if !ok {
		return nil
	}
	for _, n := range c.nodes {
		if n.cmd.ProcessState == nil {
			continue
		}
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	return errors.Join(c.healthy(ctx), healMembers(ctx, f, b))
}

// healNATS starts the server that was killed, and waits until every stream has all of its replicas again.
func healNATS(ctx context.Context, f *recoverFleet, b *bench) error {
	for _, n := range f.nats.nodes {
		if !n.gone() {
			continue
		}
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	current := func(kind string) bool {
		info, ok := b.replicas(ctx, kind)
		return ok && info.Leader != "" && !slices.ContainsFunc(info.Replicas, func(r *jetstream.PeerInfo) bool { return r.Offline || !r.Current })
	}
	if err := until(ctx, func() bool { return current("INPUTS") && current("TASKS") }); err != nil {
		return fmt.Errorf("the streams do not have their replicas again: %w", err)
	}
	return healMembers(ctx, f, b)
}

// faultsNamed finds faults by name; none: all.
func faultsNamed(names []string) ([]fault, error) {
	all := faults()
	if len(names) == 0 {
		return all, nil
	}
	var some []fault
	var known []string
	for _, f := range all {
		known = append(known, f.name)
	}
	for _, name := range names {
		found := false
		for _, f := range all {
			if f.name == name {
				some, found = append(some, f), true
			}
		}
		if !found {
			return nil, fmt.Errorf("--fault %s: there are %s", name, strings.Join(known, ", "))
		}
	}
	return some, nil
}
