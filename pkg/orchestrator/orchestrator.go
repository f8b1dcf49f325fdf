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
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/shard"
	"github.com/pawlrun/pawl/internal/transport"

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

// Config configures an orchestrator. NATS and Redis are required; all other fields have defaults.
type Config struct {
	NATS  *nats.Conn            // closed by the caller
	Redis redis.UniversalClient // one node, sentinel or cluster; closed by the caller

	Namespace  string // default "default"
	Partitions int    // number for a new namespace; must match that of an existing one; default 64
	Replicas   int    // of the streams, when they are created; default 1
	// InputsMaxBytes is the size at which the INPUTS stream rejects further messages; default 1 GiB. An existing stream is updated.
	InputsMaxBytes int64
	// ObjectsMaxBytes is the size at which the OBJECTS stream rejects further payloads; default: unlimited. An existing stream is updated.
	ObjectsMaxBytes int64
	Member          string // unique name of this process among the orchestrators; default host-pid-random

	// ReplyPrefixes are the prefixes that subjects of replies may have. The default is "_INBOX", which matches the inboxes of NATS,
	// including those of a role ("_INBOX_client"). Replies are never sent to subjects of the server ("$") or of Pawl.
	ReplyPrefixes []string

	ReconcileInterval time.Duration // maximum time between reconciliations of an instance with outstanding activities; default 10 s
	MaxClaims         int           // number of claims without an acknowledgement after which an activity is poison; default 10
	Parked            int           // approximate number of executions kept in memory by a process that owns all partitions; default 10,000
	TurnLimit         time.Duration // time after which a turn is abandoned as blocked; default 5 s
	// FailDiverged fails an instance whose code does not match its history, with pawl.ErrDiverged.
	// Otherwise the instance keeps its history, is listed as stalled, and resumes when compatible code takes over its partition.
	FailDiverged bool
	// Global limits each action for which neither the action itself nor its group has a policy: see pawl.Concurrency. A policy that is set at
	// run time for the global level takes precedence. Default: such actions are not limited.
	Global    []pawl.LimitOption
	Retention Retention     // of instances that have ended; default 72 h
	OwnerTTL  time.Duration // time after which the partitions of a dead orchestrator are free; default 5 s
	Limits    Limits        // of one execution

	// Tracer receives the spans of instances; package pawlotel provides one for OpenTelemetry. Default: none.
	Tracer tracing.Tracer
	// Interceptors wrap all turns; the first is the outermost. See Interceptor.
	Interceptors []Interceptor

	// Codec decodes the payloads that code receives, and encodes those that it sends: see package pawlcodec. Default: none.
	Codec *pawlcodec.Codec

	// Local runs activities, without NATS, on workers in this process that have the same Local; default: none. See queue.Local.
	Local *queue.Local

	// Trace receives a line for each message that a partition handles, and for each effect of it; for development.
	Trace io.Writer

	Logger  *slog.Logger          // default: discard
	Metrics prometheus.Registerer // default: none
}

// ErrStarted is returned by Start if the orchestrator is already running.
var ErrStarted = errors.New("orchestrator: already started; stop it first, or make another")

// PartitionsError is returned if Config.Partitions differs from the number of partitions of an existing namespace.
type PartitionsError struct {
	Namespace  string
	Have, Want int
}

// Error describes both numbers, and how to resolve the difference.
func (e *PartitionsError) Error() string {
	return fmt.Sprintf("namespace %q has %d partitions, not %d: set it to %d; \"pawl partitions resize\" changes it, and another namespace may have another number",
		e.Namespace, e.Have, e.Want, e.Have)
}

// Orchestrator runs the orchestrations of one namespace. Any number of processes may run one; each
// owns a share of the partitions.
type Orchestrator struct {
	cfg      Config
	programs *author.Registry
	met      *shard.Metrics
	global   history.Policy
	outage   *outage.Reporter
	process  atomic.Pointer[shard.Process] // nil: not started yet

	mu      sync.Mutex
	started bool // from the call of Start until it fails or Stop returns
	keeper  *partition.Keeper
	stop    func(context.Context) error
}

// New returns an orchestrator for the orchestrations. It does not use NATS and Redis before Start.
func New(cfg Config, orchestrations ...pawl.OrchestrationBinding) (*Orchestrator, error) {
	if cfg.NATS == nil || cfg.Redis == nil {
		return nil, errors.New("orchestrator: Config.NATS and Config.Redis are required")
	}
	cfg.setDefaults()
	if cfg.Partitions < 1 || cfg.Partitions > transport.MaxPartitions || cfg.Replicas < 1 || cfg.MaxClaims < 1 || cfg.Parked < 1 ||
		cfg.MaxClaims > math.MaxInt32 || cfg.ReconcileInterval < 0 || cfg.TurnLimit < 0 || cfg.OwnerTTL < 0 || cfg.InputsMaxBytes < 0 {
		return nil, fmt.Errorf("orchestrator: a setting is out of range: partitions %d (1 to %d), replicas %d, max claims %d, parked %d, reconcile interval %v, turn limit %v, owner TTL %v, inputs max bytes %d",
			cfg.Partitions, transport.MaxPartitions, cfg.Replicas, cfg.MaxClaims, cfg.Parked, cfg.ReconcileInterval, cfg.TurnLimit, cfg.OwnerTTL, cfg.InputsMaxBytes)
	}
	if err := transport.CheckReplyPrefixes(cfg.ReplyPrefixes); err != nil {
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

// list implements builtin.Instances.List.
func (o *Orchestrator) list(partition int, where filter.Where, cursor string, limit int) ([]builtin.Listed, string, error) {
	p := o.process.Load()
	if p == nil {
		return nil, "", errors.New("orchestrator: not started")
	}
	return p.List(partition, where, cursor, limit)
}

func (c *Config) setDefaults() {
	c.Namespace = cmp.Or(c.Namespace, DefaultNamespace)
	c.Partitions = cmp.Or(c.Partitions, transport.DefaultPartitions)
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

// Start opens the namespace, joins the other orchestrators and begins to acquire partitions. While Redis, NATS or JetStream
// is unavailable, it waits until ctx ends, and Ready reports what it waits for. It fails at once if waiting cannot help: a rejected
// password, a Redis that may evict keys, a namespace that was created with other settings. ctx applies to Start only.
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
	var cleanups []func() // run in reverse order
	closeAll := func() {
		end()
		wg.Wait()
		for _, f := range slices.Backward(cleanups) {
			f()
		}
	}
	s, keeper, err := o.open(ctx, &cleanups)
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

// open connects to the namespace in Redis and NATS, and starts the keeper. It appends to cleanups what the caller must run, even after an error.
func (o *Orchestrator) open(ctx context.Context, cleanups *[]func()) (*shard.Process, *partition.Keeper, error) {
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
	conn, err := transport.Open(ctx, o.cfg.NATS, transport.Options{
		Namespace: o.cfg.Namespace, Partitions: o.cfg.Partitions, Replicas: o.cfg.Replicas, InputsMaxBytes: o.cfg.InputsMaxBytes,
		ObjectsMaxBytes: o.cfg.ObjectsMaxBytes,
		ReplyPrefixes:   o.cfg.ReplyPrefixes, Local: (*transport.Local)(o.cfg.Local), Logger: o.cfg.Logger, Outage: o.outage,
	})
	if err != nil {
		return nil, nil, err
	}
	*cleanups = append(*cleanups, conn.Close)
	if ((*sealing.Codec)(o.cfg.Codec)).Stores() {
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
	*cleanups = append(*cleanups, unregister, run.Close)
	keeper, err := s.Open(ctx, space, cleanups)
	return s, keeper, err
}

// shards returns the configuration of the shards of this process.
func (o *Orchestrator) shards() shard.Config {
	cfg := shard.Config{
		Redis: o.cfg.Redis, Partitions: o.cfg.Partitions, Member: o.cfg.Member,
		ReconcileInterval: o.cfg.ReconcileInterval, MaxClaims: o.cfg.MaxClaims, Parked: o.cfg.Parked, TurnLimit: o.cfg.TurnLimit, OwnerTTL: o.cfg.OwnerTTL,
		FailDiverged: o.cfg.FailDiverged, Retention: core.Retention(o.cfg.Retention), Limits: replay.Limits(o.cfg.Limits), Codec: (*sealing.Codec)(o.cfg.Codec), Programs: o.programs,
		Observers: shard.Observers{
			Trace: o.cfg.Trace, Tracer: o.cfg.Tracer, AroundTurn: aroundTurn(o.cfg.Interceptors), Logger: o.cfg.Logger, Outage: o.outage, Metrics: o.met,
		},
	}
	if len(o.cfg.Global) > 0 {
		cfg.Global = &o.global
	}
	return cfg
}

// Stop hands over all partitions, and waits for all goroutines that Start has started. If ctx ends
// first, the remaining partitions are dropped, and other orchestrators acquire them when their TTL
// expires. Stop has no effect if the orchestrator is not running.
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

// Ready returns nil if the orchestrator is running, is connected, and owns its partitions; otherwise the
// error describes what is missing.
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
	return nil // without assigned partitions it is a spare: there are more orchestrators than partitions
}

// Partitions returns the partitions that this process currently owns.
func (o *Orchestrator) Partitions() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keeper == nil {
		return nil
	}
	return o.keeper.Owned()
}

// Member returns the name of this process among the orchestrators.
func (o *Orchestrator) Member() string { return o.cfg.Member }

// checkPartitions records the number of partitions of a new namespace, and rejects another number for an existing one.
func checkPartitions(ctx context.Context, cfg Config, space redisx.Space) error {
	run := redisx.NewRunner(cfg.Redis) // for its timeouts and retries
	defer run.Close()
	read := redisx.Command("HMGET", space.Meta(), "partitions", "resize")
	v, err := run.Do(ctx, read)
	r := redisx.NewReply(v)
	if err == nil && r.Str(0) == "" { // only for a new namespace, because a Redis without free memory rejects the write
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

// Limits bound one execution. A zero field means its default. They may be changed at any time, because on replay the decisions and refusals
// of the history apply.
type Limits struct {
	Payload     int    // size of one payload in bytes; default 512 KiB, or 64 MiB with an object store
	Events      uint64 // number of events in one history; default 100,000
	WarnEvents  uint64 // number of events at which a warning is logged, once; default 10,000
	Outstanding int    // activities and children that may be outstanding at a time; default 10,000
	Depth       uint64 // depth of children, where 1 is a child of an instance without a parent; default 100
}

// Retention is how long instances are kept after they have ended, by status. Zero means the default of 72
// hours; a negative value means forever. A child is kept at least until its parent cannot miss
// its end: until INPUTS has stored the end, and for six reconcile intervals (a minute).
type Retention struct {
	Completed, Failed, Cancelled time.Duration
}
