package bench

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
	outageInterval  = 20 * time.Millisecond  // between instances during an outage of seconds
	leaderTimeout   = 100 * time.Millisecond // maximum time for one answer of a leader
	presenceTimeout = 5 * time.Millisecond   // maximum time for NATS to report that a worker has no subscription
)

// injection injects a fault, and returns the time from which instances need no longer wait.
type injection func(ctx context.Context, f *fleet, d *driver, round int) (time.Time, error)

// fault is a fault of a fleet.
type fault struct {
	name   string
	target time.Duration // maximum wait of an instance
	since  string        // event at which the wait begins
	nats   int           // number of NATS servers; zero: one
	redis  bool          // a Redis Cluster
	held   time.Duration // target of instances whose activities the affected member runs; zero: target
	every  time.Duration // time between instances; zero: canaryInterval. Longer for outages of seconds, whose backlog is not measured
	inject injection
	// heal restores the servers once the fleet has recovered; nil: they need none. Members are restored after every fault.
	heal func(ctx context.Context, f *fleet, d *driver) error
}

// faults returns the faults in the order of the table.
func faults() []fault {
	return []fault{
		{name: "orchestrator-killed", target: 3500 * time.Millisecond, since: "kill -9", every: outageInterval, inject: killOrchestrator},
		{name: "orchestrators-killed", target: 3500 * time.Millisecond, since: "their start", every: outageInterval, inject: killAllOrchestrators},
		{name: "hand-over", target: 100 * time.Millisecond, since: "SIGTERM", inject: stopOneOrchestrator},
		{name: "nats-cut", target: 6 * time.Second, since: "cut from NATS", every: outageInterval, inject: network(orchestrators, func(m *member) { m.toNATS().Cut() })},
		{name: "nats-black-hole", target: 6 * time.Second, since: "black hole to NATS", every: outageInterval, inject: network(orchestrators, func(m *member) { m.toNATS().BlackHole() })},
		{name: "redis-cut", target: 6 * time.Second, since: "cut from Redis", every: outageInterval, inject: network(orchestrators, func(m *member) { m.toRedis().Cut() })},
		{name: "redis-black-hole", target: 6 * time.Second, since: "black hole to Redis", every: outageInterval, inject: network(orchestrators, func(m *member) { m.toRedis().BlackHole() })},
		{name: "worker-killed", target: 50 * time.Millisecond, held: 11 * time.Second, since: "NATS drops it", inject: killWorker},
		{name: "worker-nats-cut", target: 3 * time.Second, held: 11 * time.Second, since: "cut from NATS", inject: network(workers, func(m *member) { m.toNATS().Cut() })},
		{name: "worker-nats-black-hole", target: 3 * time.Second, held: 11 * time.Second, since: "black hole to NATS", inject: network(workers, func(m *member) { m.toNATS().BlackHole() })},
		{name: "worker-redis-cut", target: 3 * time.Second, held: 11 * time.Second, since: "cut from Redis", inject: network(workers, func(m *member) { m.toRedis().Cut() })},
		{name: "worker-redis-black-hole", target: 3 * time.Second, held: 11 * time.Second, since: "black hole to Redis", inject: network(workers, func(m *member) { m.toRedis().BlackHole() })},
		{name: "redis-restarted", target: time.Second, since: "Redis answers", inject: restartRedis},
		{name: "nats-restarted", target: time.Second, since: "NATS listens", inject: restartNATS},
		{name: "tasks-lost", target: 2 * time.Second, since: "TASKS deleted", inject: deleteTasks},
		{name: "cluster-master-killed", target: 2 * time.Second, since: "election", redis: true, every: outageInterval, inject: killClusterMaster, heal: healCluster},
		{name: "jetstream-leader-killed", target: time.Second, since: "last election", nats: 3, every: outageInterval, inject: killStreamLeader, heal: healNATS},
	}
}

var (
	errNoSingle  = errors.New("the fleet uses a Redis Cluster")
	errNoCluster = errors.New("the fleet uses no Redis Cluster")
)

func orchestrators(f *fleet) []*member { return f.orchestrators }
func workers(f *fleet) []*member       { return f.workers }

func killOrchestrator(_ context.Context, f *fleet, _ *driver, round int) (time.Time, error) {
	err := f.orchestrators[round%len(f.orchestrators)].Kill()
	return time.Now(), err
}

// killWorker kills a worker, and waits until NATS has noticed. Until then NATS delivers tasks to the worker, which are delayed as long as
// those that it had claimed.
func killWorker(ctx context.Context, f *fleet, d *driver, round int) (time.Time, error) {
	m := f.workers[round%len(f.workers)]
	if err := m.Kill(); err != nil {
		return time.Time{}, err
	}
	err := until(ctx, func() bool { return !d.subscribed(m.name) })
	return time.Now(), err
}

// subscribed reports whether a worker is subscribed. NATS answers a request without subscribers at once.
func (d *driver) subscribed(worker string) bool {
	_, err := d.nc.Request("pawl."+d.ns+".hint."+worker, nil, presenceTimeout)
	return !errors.Is(err, nats.ErrNoResponders)
}

func killAllOrchestrators(_ context.Context, f *fleet, _ *driver, _ int) (time.Time, error) {
	var errs []error
	for _, m := range f.orchestrators {
		errs = append(errs, m.Kill())
	}
	now := time.Now()
	for _, m := range f.orchestrators {
		errs = append(errs, m.start())
	}
	return now, errors.Join(errs...)
}

func stopOneOrchestrator(_ context.Context, f *fleet, _ *driver, round int) (time.Time, error) {
	m := f.orchestrators[round%len(f.orchestrators)]
	now := time.Now()
	return now, m.Stop()
}

// network injects a fault into the network of one member.
func network(of func(*fleet) []*member, cut func(*member)) injection {
	return func(_ context.Context, f *fleet, _ *driver, round int) (time.Time, error) {
		ms := of(f)
		now := time.Now()
		cut(ms[round%len(ms)])
		return now, nil
	}
}

func restartRedis(ctx context.Context, f *fleet, _ *driver, _ int) (time.Time, error) {
	one, ok := f.redis.(*singleRedis)
	if !ok {
		return time.Time{}, errNoSingle
	}
	err := one.restart(ctx, func() error { return nil })
	return time.Now(), err
}

func restartNATS(ctx context.Context, f *fleet, _ *driver, _ int) (time.Time, error) {
	if err := f.nats.servers[0].Kill(); err != nil {
		return time.Time{}, err
	}
	err := f.nats.servers[0].start(ctx)
	return time.Now(), err
}

func deleteTasks(ctx context.Context, _ *fleet, d *driver, _ int) (time.Time, error) {
	err := d.js.DeleteStream(ctx, d.stream("TASKS"))
	return time.Now(), err
}

// killClusterMaster kills a master, and waits until a replica has become one. The killed server is restarted, as a replica, when the fleet
// has recovered.
func killClusterMaster(ctx context.Context, f *fleet, _ *driver, round int) (time.Time, error) {
	c, ok := f.redis.(*redisCluster)
	if !ok {
		return time.Time{}, errNoCluster
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
		return time.Time{}, fmt.Errorf("the Redis Cluster has %d masters", len(masters))
	}
	masters[round%len(masters)].kill()
	err := until(ctx, func() bool { return slices.ContainsFunc(replicas, func(n *redisNode) bool { return n.master(ctx) }) })
	return time.Now(), err
}

// killStreamLeader kills the server that leads INPUTS, and waits until everything that an instance needs has a leader again.
func killStreamLeader(ctx context.Context, f *fleet, d *driver, _ int) (time.Time, error) {
	info, _ := d.replicas(ctx, "INPUTS")
	i := slices.IndexFunc(f.nats.servers, func(s *natsServer) bool { return s.name == info.Leader })
	if i < 0 {
		return time.Time{}, fmt.Errorf("the leader of %s is %q, which is not a server of this fleet", d.stream("INPUTS"), info.Leader)
	}
	if err := f.nats.servers[i].Kill(); err != nil {
		return time.Time{}, err
	}
	return d.awaitLeaders(ctx, info.Leader)
}

// awaitLeaders waits until JetStream, both streams and the consumer of the task queue have a leader other than the killed server, and
// returns the time.
func (d *driver) awaitLeaders(ctx context.Context, dead string) (time.Time, error) {
	lead := func(info *jetstream.ClusterInfo) bool { return info != nil && info.Leader != "" && info.Leader != dead }
	all := []func(context.Context) bool{func(ctx context.Context) bool {
		_, err := d.js.AccountInfo(ctx) // answered by the leader of JetStream
		return err == nil
	}}
	for _, kind := range []string{"INPUTS", "TASKS"} {
		all = append(all, func(ctx context.Context) bool {
			s, err := d.js.Stream(ctx, d.stream(kind))
			return err == nil && lead(s.CachedInfo().Cluster)
		})
	}
	all = append(all, func(ctx context.Context) bool {
		c, err := d.js.Consumer(ctx, d.stream("TASKS"), examples.Greet.Queue()) // the consumer is named for its queue
		return err == nil && lead(c.CachedInfo().Cluster)
	})
	var g errgroup.Group
	for _, one := range all { // concurrently, because a request without a leader gets no answer
		g.Go(func() error {
			return until(ctx, func() bool {
				request, stop := context.WithTimeout(ctx, leaderTimeout)
				defer stop()
				return one(request)
			})
		})
	}
	err := g.Wait()
	return time.Now(), err
}

// replicas returns the leader and the replicas of a stream.
func (d *driver) replicas(ctx context.Context, kind string) (jetstream.ClusterInfo, bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s, err := d.js.Stream(ctx, d.stream(kind))
	if err != nil || s.CachedInfo().Cluster == nil {
		return jetstream.ClusterInfo{}, false
	}
	return *s.CachedInfo().Cluster, true
}

// heal restores the members of the fleet.
func (f *fleet) heal() error {
	var errs []error
	for _, m := range f.members() {
		errs = append(errs, m.heal())
	}
	return errors.Join(errs...)
}

// healCluster restarts the node that was killed, and waits until every node and replica is healthy.
func healCluster(ctx context.Context, f *fleet, _ *driver) error {
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
	return c.awaitHealthy(ctx)
}

// healNATS restarts the server that was killed, and waits until every stream has all of its replicas.
func healNATS(ctx context.Context, f *fleet, d *driver) error {
	for _, n := range f.nats.servers {
		if !n.Exited() {
			continue
		}
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	current := func(kind string) bool {
		info, ok := d.replicas(ctx, kind)
		return ok && info.Leader != "" && !slices.ContainsFunc(info.Replicas, func(r *jetstream.PeerInfo) bool { return r.Offline || !r.Current })
	}
	if err := until(ctx, func() bool { return current("INPUTS") && current("TASKS") }); err != nil {
		return fmt.Errorf("the streams lack replicas: %w", err)
	}
	return nil
}

// selectFaults returns the faults with the names, or all without names.
func selectFaults(names []string) ([]fault, error) {
	all := faults()
	if len(names) == 0 {
		return all, nil
	}
	var selected []fault
	for _, name := range names {
		i := slices.IndexFunc(all, func(f fault) bool { return f.name == name })
		if i < 0 {
			var known []string
			for _, f := range all {
				known = append(known, f.name)
			}
			return nil, fmt.Errorf("unknown --fault %s: use one of %s", name, strings.Join(known, ", "))
		}
		selected = append(selected, all[i])
	}
	return selected, nil
}
