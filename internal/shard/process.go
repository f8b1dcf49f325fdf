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
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/pool"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/tracing"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Config is what the shards of a process are made with. Nothing has a default.
type Config struct {
	Redis      redis.UniversalClient
	Partitions int
	Member     string

	ReconcileInterval time.Duration // between two reconciliations of an instance with activities outstanding
	MaxClaims         int
	Parked            int // executions kept in memory, if the process owns all partitions
	TurnLimit         time.Duration
	OwnerTTL          time.Duration
	FailDiverged      bool
	Codec             *pawlcodec.Codec
	Retention         core.Retention
	Limits            replay.Limits
	Programs          *author.Registry
	Global            *history.Policy // nil: none

	Observers
}

// Observers see what a process does, and decide nothing.
type Observers struct {
	Trace      io.Writer                                                   // nil: none
	Tracer     tracing.Tracer                                              // nil: none
	AroundTurn func(id history.Identity, orchestration string, run func()) // nil: the turn alone

	Logger  *slog.Logger
	Outage  *outage.Reporter
	Metrics *Metrics
}

// Process has what all shards of a process use.
type Process struct {
	cfg    Config
	outage *outage.Reporter
	log    *slog.Logger // repeated lines are limited; for what is not an author's
	met    *Metrics
	trace  *trace
	spans  *spans // nil: none
	backends
	caches

	shards  *shards
	large   chan struct{} // a place for each turn that has read many bytes of large payloads
	turners *turners
	watched *watched
}

// backends are where the state and the messages are.
type backends struct {
	store  *store.Store
	gates  *limiter.Limiter
	leases *lease.Leases // for reports only: the scripts of the owner create and delete them
	conn   *queue.Conn
	caller *pool.Caller // asks the members that have code which this process lacks
}

// caches have what all shards read of the namespace.
type caches struct {
	missed      lastTime // when an object was missing
	unanswered  lastTime // when the object store did not answer
	replicas    replicas // of queries
	stores      storeHealth
	policies    *policyCache
	queueAges   *queueAges
	fleet       *fleet
	lost        *tasksLoss
	descendants *descendants
	declines    declines
}

// New returns a process that owns nothing yet.
func New(cfg Config, conn *queue.Conn, run *redisx.Runner, space redisx.Space) *Process {
	s := &Process{
		cfg: cfg, outage: cfg.Outage, log: cfg.Outage.Logger(), met: cfg.Metrics, trace: newTrace(cfg.Trace), spans: newSpans(cfg.Tracer, cfg.Metrics),
		backends: backends{store: store.New(run, space), gates: limiter.New(run, space, conn.PartitionOf), leases: lease.New(run, space), conn: conn},
		caches:   caches{queueAges: newQueueAges(conn), fleet: newFleet(conn, cfg.ReconcileInterval), lost: &tasksLoss{}},
		shards:   newShards(), large: make(chan struct{}, largeTurns), turners: newTurners(cfg.TurnLimit), watched: &watched{},
	}
	s.met.lags.shards.Store(s.shards)
	s.descendants = newDescendants(s.store, conn, s.log)
	s.policies = newPolicies(s.gates, conn, s.log, s.shards, cfg.Global)
	return s
}

func (s *Process) replayOptions(instance string, g *core.Given) replay.Options {
	return replay.Options{
		Logger: traceLogger(slog.New(instanceHandler{s.cfg.Logger.Handler(), instance}), g), Limits: s.cfg.Limits, Codec: s.cfg.Codec,
		PayloadChanged: func(uint64, string) { s.met.payloadsChanged.Inc() },
	}
}

// Open reads the policies, listens to the other processes, and starts to take partitions. What is to be undone is added to opened, also
// on an error.
func (s *Process) Open(ctx context.Context, space redisx.Space, opened *[]func()) (*partition.Keeper, error) {
	*opened = append(*opened, s.queueAges.wg.Wait, s.fleet.wg.Wait)
	// The policies are read before the first turn.
	if err := s.outage.Await(ctx, outage.Redis, "read policies", redisx.Unavailable, s.policies.read); err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	keeper := s.newKeeper(space)
	notices, err := s.conn.OnNotices(func(n queue.Notice) {
		switch n.Kind {
		case queue.MemberJoined:
			s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.CodeJoined}) })
			keeper.Nudge()
		case queue.PolicyChanged:
			s.policies.notice()
		case queue.ChildrenCancelled:
			s.descendants.notice()
		default:
			keeper.Nudge()
		}
	})
	if err != nil {
		return nil, err
	}
	*opened = append(*opened, notices.Stop)
	if err := s.serveLive(opened); err != nil {
		return nil, err
	}
	if err := s.joinPool(opened); err != nil {
		return nil, err
	}
	return keeper, keeper.Start(ctx)
}

// Run starts what concerns all partitions; it ends with ctx.
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

// watchConnection has instances tried again that lack their code when NATS is back: members could not be found meanwhile.
func (s *Process) watchConnection(ctx context.Context) {
	nc := s.conn.NATS()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-connected:
			if !ok { // it is closed
				return
			}
			s.shards.each(func(p *shard) { p.shell.post(core.Message{Kind: core.CodeJoined}) })
		}
	}
}

// Leave notifies the others that this process has gone.
func (s *Process) Leave() {
	_ = s.conn.Notify(queue.Notice{Kind: queue.MemberLeft, Member: s.cfg.Member})
}

func (s *Process) newKeeper(space redisx.Space) *partition.Keeper {
	return partition.NewKeeper(partition.Config{
		Redis: s.cfg.Redis, Space: space, Partitions: s.cfg.Partitions, Member: s.cfg.Member, TTL: s.cfg.OwnerTTL, Logger: s.log, Outage: s.outage,
		Inputs: s.conn.InputsHeard, Gone: s.conn.MemberGone,
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
			n := queue.Notice{Kind: queue.PartitionReleased, Partition: p, Member: s.cfg.Member}
			if p < 0 {
				n.Kind = queue.MemberJoined
			}
			_ = s.conn.Notify(n) // lost: the others look every second
		},
	})
}
