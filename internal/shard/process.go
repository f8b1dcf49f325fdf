package shard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/tracing"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// Config configures the shards of a process. No field has a default.
type Config struct {
	Redis      redis.UniversalClient
	Partitions int
	Member     string

	ReconcileInterval time.Duration // between two reconciliations of an instance with activities outstanding
	MaxClaims         int
	Parked            int // executions kept in memory, divided among the partitions of the namespace
	TurnLimit         time.Duration
	OwnerTTL          time.Duration
	FailDiverged      bool
	Codec             *sealing.Codec
	Retention         core.Retention
	Limits            replay.Limits
	Programs          *author.Registry
	Global            *history.Policy // policy at the global level of every limit; nil: none

	Observers
}

// Observers observe what a process does, and do not affect it.
type Observers struct {
	Trace      io.Writer                                                    // receives the messages and effects of all shards; may be nil
	Tracer     tracing.Tracer                                               // receives the spans of committed turns; may be nil
	AroundTurn func(id effectid.Identity, orchestration string, run func()) // calls run, which runs the turn; may be nil

	Logger  *slog.Logger
	Outage  *outage.Reporter
	Metrics *Metrics
}

// Process holds what the shards of one process share.
type Process struct {
	cfg    Config
	outage *outage.Reporter
	log    *slog.Logger // limits repeated lines; orchestration code logs to Config.Logger
	met    *Metrics
	trace  *trace
	spans  *spans // nil without a tracer
	backends
	caches

	shards  *shards
	large   chan struct{} // semaphore of the turns that read more than smallTurn bytes of large payloads
	turners *turners
	watched lastTime // changes are published until then: for a while after the latest message of a watcher
}

// backends are the clients of Redis, NATS and the other members.
type backends struct {
	store  *store.Store
	limits *limiter.Limiter
	leases *leases.Scripts // writes reports only; the owner's scripts create and delete leases
	conn   *transport.Conn
	caller *pool.Caller // sends turns and queries to members that have the code which this process lacks
}

// caches hold what the shards know about the namespace beyond their own partitions.
type caches struct {
	missed      lastTime      // an object was last missing
	unanswered  lastTime      // the object store last timed out
	lost        lastTime      // everything published to TASKS before this time is gone
	replicas    chan struct{} // semaphore of the replicas in memory
	stores      storeHealth
	policies    *policyCache
	queueAges   *queueAges
	fleet       *fleet
	descendants *descendants
	declines    declines
}

// New returns a process that owns no partitions yet.
func New(cfg Config, conn *transport.Conn, run *redisx.Runner, space redisx.Space) *Process {
	s := &Process{
		cfg: cfg, outage: cfg.Outage, log: cfg.Outage.Logger(), met: cfg.Metrics, trace: newTrace(cfg.Trace), spans: newSpans(cfg.Tracer, cfg.Metrics),
		backends: backends{store: store.New(run, space), limits: limiter.New(run, space, conn.PartitionOf), leases: leases.New(run, space), conn: conn},
		caches:   caches{replicas: make(chan struct{}, maxReplicas), queueAges: newQueueAges(conn), fleet: newFleet(conn, cfg.ReconcileInterval)},
		shards:   newShards(), large: make(chan struct{}, largeTurns), turners: newTurners(cfg.TurnLimit),
	}
	s.met.lags.shards.Store(s.shards)
	s.descendants = newDescendants(s.store, conn, s.log)
	s.policies = newPolicies(s.limits, conn, s.log, s.shards, cfg.Global)
	return s
}

func (s *Process) replayOptions(instance string, g *core.Given) replay.Options {
	return replay.Options{
		Logger: traceLogger(slog.New(instanceHandler{s.cfg.Logger.Handler(), instance}), g), Limits: s.cfg.Limits, Codec: s.cfg.Codec,
		PayloadChanged: func(uint64, string) { s.met.payloadsChanged.Inc() },
	}
}

// Open reads the policies, subscribes to the notices of other processes, and starts to claim partitions. It appends to cleanups what the
// caller must run, in reverse order, when the process ends or Open fails.
func (s *Process) Open(ctx context.Context, space redisx.Space, cleanups *[]func()) (*partition.Keeper, error) {
	*cleanups = append(*cleanups, s.queueAges.wg.Wait, s.fleet.wg.Wait)
	// The policies are read before the first turn.
	if err := s.outage.Await(ctx, outage.Redis, "read policies", redisx.Unavailable, s.policies.read); err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	keeper := s.newKeeper(space)
	notices, err := s.conn.OnNotices(func(n transport.Notice) {
		switch n.Kind {
		case transport.MemberJoined:
			s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.CodeJoined}) })
			keeper.Nudge()
		case transport.PolicyChanged:
			signal(s.policies.noticed)
		case transport.ChildrenCancelled:
			signal(s.descendants.noticed)
		default:
			keeper.Nudge()
		}
	})
	if err != nil {
		return nil, err
	}
	*cleanups = append(*cleanups, notices.Stop)
	if err := s.serveLive(cleanups); err != nil {
		return nil, err
	}
	if err := s.joinPool(cleanups); err != nil {
		return nil, err
	}
	return keeper, keeper.Start(ctx)
}

// Run starts the goroutines that serve all partitions, in wg. They end with ctx.
func (s *Process) Run(ctx context.Context, keeper *partition.Keeper, wg *sync.WaitGroup) {
	wg.Go(func() { s.turners.watch(ctx) })
	wg.Go(func() { s.trim(ctx, keeper) })
	wg.Go(func() { s.sample(ctx, keeper) })
	wg.Go(func() { s.met.nats.ProbeNATS(ctx, s.conn.NATS()) })
	wg.Go(func() { s.policies.watch(ctx) })
	wg.Go(func() { s.descendants.watch(ctx) })
	wg.Go(func() { s.watchConnection(ctx) })
	wg.Go(func() { s.watchTasks(ctx) })
	wg.Go(func() { s.conn.ProbeInputs(ctx) })
	if s.spans != nil {
		wg.Go(func() { s.spans.run(ctx) })
	}
	if s.cfg.Codec.Stores() {
		wg.Go(func() { s.collectObjects(ctx, keeper) })
	}
}

// watchConnection retries instances that lack their code whenever the connection to NATS is restored: without it no other member
// could be found.
func (s *Process) watchConnection(ctx context.Context) {
	nc := s.conn.NATS()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-connected:
			if !ok { // the connection is closed
				return
			}
			s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.CodeJoined}) })
		}
	}
}

// Leave notifies the other members that this process has left.
func (s *Process) Leave() {
	_ = s.conn.Notify(transport.Notice{Kind: transport.MemberLeft, Member: s.cfg.Member})
}

func (s *Process) newKeeper(space redisx.Space) *partition.Keeper {
	return partition.NewKeeper(partition.Config{
		Redis: s.cfg.Redis, Space: space, Partitions: s.cfg.Partitions, Member: s.cfg.Member, TTL: s.cfg.OwnerTTL, Logger: s.log, Outage: s.outage,
		Inputs: s.conn.InputsSilence, Gone: s.conn.MemberGone,
		Run: func(ctx context.Context, t *partition.Tenure) error {
			s.met.partitions.Inc()
			defer s.met.partitions.Dec()
			err := newShard(ctx, s, t).run()
			if err != nil {
				s.met.tenuresLost.Inc()
			}
			return err
		},
		Released: func(p int) {
			n := transport.Notice{Kind: transport.PartitionReleased, Partition: p, Member: s.cfg.Member}
			if p < 0 {
				n.Kind = transport.MemberJoined
			}
			_ = s.conn.Notify(n) // if it is lost, the other members find the partition within a second
		},
	})
}
