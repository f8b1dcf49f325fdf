package orchestrator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/shard"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/tracing"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Defaults of Config.
const (
	DefaultNamespace         = queue.DefaultNamespace
	DefaultReconcileInterval = 10 * time.Second
	DefaultMaxClaims         = 10
	DefaultParked            = 10_000
	DefaultTurnLimit         = 5 * time.Second
)

// Config is what an orchestrator needs. Only NATS and Redis have no default.
type Config struct {
	NATS  *nats.Conn            // stays the caller's to close
	Redis redis.UniversalClient // likewise; one node, sentinel or cluster

	Namespace  string // default "default"
	Partitions int    // of a new namespace, or the number that it has; default 64
	Replicas   int    // of the streams, when they are made; default 1
	// InputsMaxBytes is the size at which the INPUTS stream takes no further messages; default 1 GiB. An existing stream is updated.
	InputsMaxBytes int64
	// ObjectsMaxBytes is the size at which the OBJECTS stream takes no further payloads; default none. An existing stream is updated.
	ObjectsMaxBytes int64
	Member          string // this process' name among the orchestrators; default host-pid-random

	// ReplyPrefixes are what a subject may begin with that replies are sent to; default "_INBOX". See queue.Options.
	ReplyPrefixes []string

	ReconcileInterval time.Duration // an instance with activities outstanding is reconciled so often; default 10 s
	MaxClaims         int           // an activity claimed so often without an end is poison; default 10
	Parked            int           // executions kept in memory, about, if this process owns all partitions; default 10,000
	TurnLimit         time.Duration // a turn that takes longer is left behind as blocked; default 5 s
	// FailDiverged fails an instance whose code does not match its history, with pawl.ErrDiverged.
	// Without it the instance keeps its history and waits, listed as stalled, for code that fits.
	FailDiverged bool
	// Global limits every action that neither itself nor its group has a policy: see pawl.Concurrency. A policy that is set at
	// run time for the global level stands above it. Without it such actions are not limited.
	Global    []pawl.LimitOption
	Retention Retention     // of instances that have ended; default 72 h
	OwnerTTL  time.Duration // a dead orchestrator's partitions are free after it; default 5 s
	Limits    replay.Limits // of one execution; zero fields have their defaults

	// Tracer receives the spans of instances; see package pawlotel, which makes one for OpenTelemetry. Default: none.
	Tracer tracing.Tracer
	// Interceptors are around every turn; the first is the outermost. See Interceptor.
	Interceptors []Interceptor

	// Codec opens the payloads that code receives and seals those that it sends: see package pawlcodec. Default: none.
	Codec *pawlcodec.Codec

	// Local runs activities by workers of this process, with the same Local, without NATS; default: none. See queue.Local.
	Local *queue.Local

	// Trace gets a line for every message that a partition handles, and for every effect of it; for development.
	Trace io.Writer

	Logger  *slog.Logger          // default: discard
	Metrics prometheus.Registerer // default: none
}

// ErrStarted is returned by Start if the orchestrator runs already.
var ErrStarted = errors.New("orchestrator: already started; stop it first, or make another")

// PartitionsError is a namespace with another number of partitions.
type PartitionsError struct {
	Namespace  string
	Have, Want int
}

// Error reports both numbers and what to do.
func (e *PartitionsError) Error() string {
	return fmt.Sprintf("namespace %q has %d partitions, not %d: set it to %d; \"pawl partitions resize\" changes it, and another namespace may have another number",
		e.Namespace, e.Have, e.Want, e.Have)
}

// Orchestrator runs orchestrations for one namespace. Any number of processes may; each
// owns a share of the partitions.
type Orchestrator struct {
	cfg      Config
	programs *author.Registry
	met      *shard.Metrics
	global   history.Policy
	outage   *outage.Reporter
	process  atomic.Pointer[shard.Process] // nil: not started yet

	mu      sync.Mutex
	started bool // from the beginning of a Start until it fails, or Stop returns
	keeper  *partition.Keeper
	stop    func(context.Context) error
}

// New makes an orchestrator for the orchestrations. Nothing is connected before Start.
func New(cfg Config, orchestrations ...pawl.OrchestrationBinding) (*Orchestrator, error) {
	if cfg.NATS == nil || cfg.Redis == nil {
		return nil, errors.New("orchestrator: Config.NATS and Config.Redis are needed")
	}
	cfg.setDefaults()
	if cfg.Partitions < 1 || cfg.Partitions > queue.MaxPartitions || cfg.Replicas < 1 || cfg.MaxClaims < 1 || cfg.Parked < 1 ||
		cfg.MaxClaims > math.MaxInt32 || cfg.ReconcileInterval < 0 || cfg.TurnLimit < 0 || cfg.OwnerTTL < 0 || cfg.InputsMaxBytes < 0 {
		return nil, fmt.Errorf("orchestrator: a setting is out of range: partitions %d (1 to %d), replicas %d, max claims %d, parked %d, reconcile interval %v, turn limit %v, owner TTL %v, inputs max bytes %d",
			cfg.Partitions, queue.MaxPartitions, cfg.Replicas, cfg.MaxClaims, cfg.Parked, cfg.ReconcileInterval, cfg.TurnLimit, cfg.OwnerTTL, cfg.InputsMaxBytes)
	}
	if err := queue.CheckReplyPrefixes(cfg.ReplyPrefixes); err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	o := &Orchestrator{cfg: cfg, outage: outage.New(cfg.Logger)}
	bindings := builtin.Orchestrations(builtin.Instances{Partitions: cfg.Partitions, List: o.list})
	for _, b := range orchestrations {
		bindings = append(bindings, b)
	}
	var err error
	o.programs, err = author.NewRegistry(bindings...)
	if err != nil {
		return nil, fmt.Errorf("orchestrator: %w", err)
	}
	o.global, err = author.Policy(cfg.Global...)
	if err != nil {
		return nil, fmt.Errorf("orchestrator: Config.Global: %w", err)
	}
	o.met, err = shard.NewMetrics(cfg.Metrics, cfg.Namespace, cfg.Partitions, o.programs.Orchestrations())
	if err != nil {
		return nil, err
	}
	return o, nil
}

// list is builtin.Instances.List.
func (o *Orchestrator) list(partition int, where filter.Where, cursor string, limit int) ([]builtin.Listed, string, error) {
	p := o.process.Load()
	if p == nil {
		return nil, "", errors.New("orchestrator: not started")
	}
	return p.List(partition, where, cursor, limit)
}

func (c *Config) setDefaults() {
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	c.Partitions = cmp.Or(c.Partitions, queue.DefaultPartitions)
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.ReconcileInterval = cmp.Or(c.ReconcileInterval, DefaultReconcileInterval)
	c.MaxClaims = cmp.Or(c.MaxClaims, DefaultMaxClaims)
	c.Parked = cmp.Or(c.Parked, DefaultParked)
	c.TurnLimit = cmp.Or(c.TurnLimit, DefaultTurnLimit)
	c.OwnerTTL = cmp.Or(c.OwnerTTL, partition.DefaultTTL)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Member == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "orchestrator"
		}
		c.Member = host + "-" + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:6]
	}
}

// Start opens the namespace, joins the other orchestrators and begins to take partitions. It waits, until ctx ends, while
// Redis, NATS or JetStream is unavailable; Ready names what it waits for. It fails at once if waiting cannot help: a refused
// password, a Redis that may evict keys, a namespace that was made with other settings. ctx bounds the starting only.
func (o *Orchestrator) Start(ctx context.Context) error {
	o.mu.Lock()
	started := o.started
	o.started = true
	o.mu.Unlock()
	if started {
		return ErrStarted
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { o.outage.Run(background) })
	var opened []func() // what ends what was begun, the last first
	closeAll := func() {
		end()
		wg.Wait()
		for _, f := range slices.Backward(opened) {
			f()
		}
	}
	s, keeper, err := o.open(ctx, &opened)
	if err != nil {
		closeAll()
		o.mu.Lock()
		o.started = false
		o.mu.Unlock()
		return err
	}
	o.cfg.Logger.Info("orchestrator started", "member", o.cfg.Member, "namespace", o.cfg.Namespace, "partitions", o.cfg.Partitions,
		"orchestrations", strings.Join(o.programs.Orchestrations(), " "))
	s.Run(background, keeper, &wg)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keeper = keeper
	o.stop = func(ctx context.Context) error {
		err := keeper.Stop(ctx)
		s.Leave()
		closeAll()
		return err
	}
	return nil
}

// open reaches Redis and NATS and starts the keeper. What is to be undone is added to opened, also on an error.
func (o *Orchestrator) open(ctx context.Context, opened *[]func()) (*shard.Process, *partition.Keeper, error) {
	space, log := redisx.NewSpace(o.cfg.Namespace), o.outage.Logger()
	err := o.outage.Await(ctx, outage.Redis, "check settings", redisx.Unavailable, func(ctx context.Context) error {
		if err := redisx.CheckPolicy(ctx, o.cfg.Redis, log); err != nil {
			return err
		}
		return checkPartitions(ctx, o.cfg, space)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("orchestrator: %w", err)
	}
	conn, err := queue.Open(ctx, o.cfg.NATS, queue.Options{
		Namespace: o.cfg.Namespace, Partitions: o.cfg.Partitions, Replicas: o.cfg.Replicas, InputsMaxBytes: o.cfg.InputsMaxBytes,
		ObjectsMaxBytes: o.cfg.ObjectsMaxBytes,
		ReplyPrefixes:   o.cfg.ReplyPrefixes, Local: o.cfg.Local, Logger: o.cfg.Logger, Outage: o.outage,
	})
	if err != nil {
		return nil, nil, err
	}
	*opened = append(*opened, conn.Close)
	if o.cfg.Codec.Stores() {
		if err := conn.EnsureObjects(ctx); err != nil {
			return nil, nil, err
		}
	}
	unregister, err := promx.RegisterConn(o.cfg.Metrics, "orchestrator", conn)
	if err != nil {
		return nil, nil, err
	}
	run := redisx.NewRunner(o.cfg.Redis).ReportTo(o.outage).Time(o.met.ObserveRedis)
	s := shard.New(o.shards(), conn, run, space)
	o.process.Store(s)
	*opened = append(*opened, unregister, run.Close)
	keeper, err := s.Open(ctx, space, opened)
	return s, keeper, err
}

// shards is what the shards of the process are made with.
func (o *Orchestrator) shards() shard.Config {
	cfg := shard.Config{
		Redis: o.cfg.Redis, Partitions: o.cfg.Partitions, Member: o.cfg.Member,
		ReconcileInterval: o.cfg.ReconcileInterval, MaxClaims: o.cfg.MaxClaims, Parked: o.cfg.Parked, TurnLimit: o.cfg.TurnLimit, OwnerTTL: o.cfg.OwnerTTL,
		FailDiverged: o.cfg.FailDiverged, Retention: core.Retention(o.cfg.Retention), Limits: o.cfg.Limits, Codec: o.cfg.Codec, Programs: o.programs,
		Observers: shard.Observers{
			Trace: o.cfg.Trace, Tracer: o.cfg.Tracer, AroundTurn: aroundTurn(o.cfg.Interceptors), Logger: o.cfg.Logger, Outage: o.outage, Metrics: o.met,
		},
	}
	if len(o.cfg.Global) > 0 {
		cfg.Global = &o.global
	}
	return cfg
}

// Stop hands every partition over and joins everything that Start has started. When ctx ends
// first, what is not yet handed over is dropped, and other orchestrators take it when its time
// is over. Stopping twice, or before Start, does nothing.
func (o *Orchestrator) Stop(ctx context.Context) error {
	o.mu.Lock()
	stop := o.stop
	if stop == nil {
		o.mu.Unlock()
		return nil
	}
	o.stop, o.keeper = nil, nil
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.started = false
		o.mu.Unlock()
	}()
	return stop(ctx)
}

// Ready reports whether the orchestrator runs and reaches NATS and the other orchestrators;
// the error names what is missing.
func (o *Orchestrator) Ready() error {
	o.mu.Lock()
	keeper := o.keeper
	o.mu.Unlock()
	waiting := o.outage.Waiting()
	switch {
	case keeper == nil && waiting != nil:
		return fmt.Errorf("orchestrator: %w", waiting)
	case keeper == nil:
		return errors.New("orchestrator: not started")
	case keeper.Resized() != nil:
		return fmt.Errorf("orchestrator: %w: restart this process", keeper.Resized())
	case keeper.Reach() == partition.CutOff:
		return errors.New("orchestrator: inputs cannot be read from NATS")
	case !o.cfg.NATS.IsConnected():
		return errors.New("orchestrator: not connected to NATS")
	}
	if keeper.Assigned() && len(keeper.Owned()) == 0 {
		return errors.New("orchestrator: waiting for its partitions")
	}
	return nil // there are more orchestrators than partitions: a spare
}

// Partitions lists the partitions that this process owns at the moment.
func (o *Orchestrator) Partitions() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keeper == nil {
		return nil
	}
	return o.keeper.Owned()
}

// Member is this process' name among the orchestrators.
func (o *Orchestrator) Member() string { return o.cfg.Member }

// checkPartitions fixes the number of partitions of a new namespace, and refuses another one.
func checkPartitions(ctx context.Context, cfg Config, space redisx.Space) error {
	run := redisx.NewRunner(cfg.Redis) // for its timeouts and retries
	defer run.Close()
	read := redisx.Command("HMGET", space.Meta(), "partitions", "resize")
	v, err := run.Do(ctx, read)
	r := redisx.NewReply(v)
	if err == nil && r.Str(0) == "" { // only then, for a full Redis refuses it
		if _, err = run.Do(ctx, redisx.Command("HSETNX", space.Meta(), "partitions", strconv.Itoa(cfg.Partitions))); err == nil {
			v, err = run.Do(ctx, read)
			r = redisx.NewReply(v)
		}
	}
	if err != nil {
		return fmt.Errorf("orchestrator: number of partitions: %w", err)
	}
	have := int(r.Int(0))
	switch {
	case r.Err() != nil:
		return fmt.Errorf("orchestrator: number of partitions: %w", r.Err())
	case r.Str(1) != "":
		return fmt.Errorf("orchestrator: namespace %q: %w", cfg.Namespace, &partition.ResizedError{})
	case have != cfg.Partitions:
		return &PartitionsError{Namespace: cfg.Namespace, Have: have, Want: cfg.Partitions}
	}
	return nil
}

// Retention is how long instances are kept that have ended. Zero is the default, 72
// hours; less than zero is forever. A child is kept at least until its parent cannot miss
// its end: until the inputs stream has it, and for six reconcile intervals (a minute).
type Retention struct {
	Completed, Failed, Cancelled time.Duration
}

// DefaultRetention is how long an instance that has ended is kept, unless Retention is set.
const DefaultRetention = 72 * time.Hour
