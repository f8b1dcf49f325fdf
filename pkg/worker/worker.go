package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/queuemetrics"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Errors of a worker's beginning.
var (
	// ErrNothingRegistered: a worker without activities would wait for ever.
	ErrNothingRegistered = errors.New("worker: no activities are registered: pass bindings to worker.New, such as Charge.Do(svc.charge)")
	// ErrStarted: a worker is started once, and not after it was stopped.
	ErrStarted = errors.New("worker: already started or stopped; make another")
)

// Worker runs activities. Its methods are safe for concurrent use.
type Worker struct {
	cfg      Config
	registry *author.Registry
	log      *slog.Logger
	count    *metrics
	outage   *outage.Reporter
	reported func() // ends the reporter's Run

	phase   atomic.Int32
	ended   chan struct{}         // closed when Stop is through
	trouble atomic.Pointer[error] // what Redis last answered, if that was an error
	last    atomic.Pointer[ailment]
	since   time.Time // when it was started

	// Set by Start; see close for the order in which they end.
	runner  *redisx.Runner
	conn    *queue.Conn
	uncount func() // the counts of conn
	leases  *lease.Leases
	keeper  *lease.Keeper
	reach   *reach
	bells   *ringer
	acks    acks // that Redis may have forgotten
	reports *reporter
	hints   *queue.Subscription
	asked   *queue.Subscription // for what it is and does
	queues  []*intake

	token  string // what the tokens of this worker's claims begin with
	claims atomic.Uint64

	mu        sync.Mutex
	tasks     map[*task]struct{} // from delivery to the last answer
	abandoned map[*task]struct{} // until they return after all
	idle      chan struct{}      // closed when there are no tasks; nil unless stopping
	unknown   map[string]bool    // activities asked for that this worker does not have

	mourners sync.Mutex
	mourned  []*task // abandoned and not yet logged
	mourning bool    // somebody does it
}

// ackWait is for a delivery that reached nobody: its worker was killed, stopped or cut off with the message on its way.
// It is longer than a worker keeps a task whose claim is unanswered.
const ackWait = 2 * claimTimeout

// The phases of a worker.
const (
	fresh int32 = iota
	starting
	taking
	stopping
	stopped
)

// New makes a worker for the activities. It does no I/O. The error is
// ErrNothingRegistered, pawl.ErrBadName, pawl.ErrDuplicate, or says what is wrong with the Config.
func New(cfg Config, activities ...pawl.ActivityBinding) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if len(activities) == 0 {
		return nil, ErrNothingRegistered
	}
	registry, err := author.NewRegistry(activities...)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	report := outage.New(cfg.Logger)
	w := &Worker{
		cfg: cfg, registry: registry, outage: report, log: report.Logger().With("worker", cfg.Name),
		token: rand.Text()[:16], ended: make(chan struct{}), tasks: make(map[*task]struct{}),
		abandoned: make(map[*task]struct{}), unknown: make(map[string]bool),
	}
	if w.count, err = newMetrics(cfg.Metrics, w); err != nil {
		return nil, err
	}
	return w, nil
}

// Name is what leases, histories and logs know the worker by.
func (w *Worker) Name() string { return w.cfg.Name }

// Start begins to take tasks. ctx bounds the starting only; until it ends, Start waits
// for a namespace that does not exist yet, and while Redis, NATS or JetStream is unavailable; Ready names what it waits for.
// It fails at once if waiting cannot help: a refused password, a Redis that may evict keys, a namespace with other settings.
// On error nothing is left running, and the worker can not be started again.
func (w *Worker) Start(ctx context.Context) error {
	if !w.phase.CompareAndSwap(fresh, starting) {
		return ErrStarted
	}
	w.report(ctx)
	if err := w.open(ctx); err != nil {
		w.phase.Store(stopping)
		for _, q := range w.queues {
			q.stop()
		}
		w.close()
		return err
	}
	w.phase.Store(taking)
	for _, q := range w.queues {
		q.start(w.cfg.Concurrency)
	}
	w.log.Info("worker started", "namespace", w.cfg.Namespace, "partitions", w.conn.Partitions(),
		"activities", strings.Join(w.registry.Activities(), " "), "queues", len(w.queues), "concurrency", w.cfg.Concurrency)
	return nil
}

// report runs the reporter until close.
func (w *Worker) report(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { w.outage.Run(ctx) })
	w.reported = func() { stop(); wg.Wait() }
}

// awaitRedis repeats an attempt until Redis is available, or ctx ends.
func (w *Worker) awaitRedis(ctx context.Context, operation string, attempt func(context.Context) error) error {
	return w.outage.Await(ctx, outage.Redis, operation, redisx.Unavailable, attempt)
}

func (w *Worker) open(ctx context.Context) error {
	err := w.awaitRedis(ctx, "check settings", func(ctx context.Context) error { return redisx.CheckPolicy(ctx, w.cfg.Redis, w.log) })
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if w.conn, err = w.join(ctx); err != nil {
		return fmt.Errorf("worker: namespace %s: %w", w.cfg.Namespace, err)
	}
	if w.uncount, err = queuemetrics.Register(w.cfg.Metrics, "worker", w.conn); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	space := redisx.NewSpace(w.cfg.Namespace)
	if err = w.awaitRedis(ctx, "compare partitions", func(ctx context.Context) error { return w.agree(ctx, space) }); err != nil {
		return err
	}
	w.runner = redisx.NewRunner(w.cfg.Redis).ReportTo(w.outage)
	w.leases = lease.New(w.runner, space)
	why := &reasons{runner: w.runner, space: space}
	w.keeper = lease.NewKeeper(w.leases, w.cfg.LeaseTTL, why.of, w.log)
	w.bells = newRinger(w.conn)
	w.reports = newReporter(w.leases, w.log)
	if w.hints, err = w.conn.OnHints(w.cfg.Name, w.hinted); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	for _, name := range w.registry.Queues() {
		q, err := newIntake(ctx, w, name)
		if err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		w.queues = append(w.queues, q)
	}
	w.reach = newReach(w)
	w.since = time.Now()
	if w.asked, err = w.conn.ServeWorkers(w.info); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// join opens the namespace, waiting for an orchestrator to make it.
func (w *Worker) join(ctx context.Context) (*queue.Conn, error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; said = true {
		conn, err := queue.Join(ctx, w.cfg.NATS, queue.Options{
			Namespace: w.cfg.Namespace, Partitions: w.cfg.Partitions, AckWait: min(w.cfg.LeaseTTL, ackWait), ReplyPrefixes: w.cfg.ReplyPrefixes,
			Logger: w.cfg.Logger, Outage: w.outage,
		})
		if err == nil || !errors.Is(err, queue.ErrNoNamespace) {
			return conn, err
		}
		if !said {
			w.log.Info("waiting for an orchestrator to make the namespace", "namespace", w.cfg.Namespace)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// agree checks that Redis, if it has a number of partitions for the namespace, has the
// one that the streams have: with another one every lease would seem gone.
func (w *Worker) agree(ctx context.Context, space redisx.Space) error {
	run := redisx.NewRunner(w.cfg.Redis) // for its time-outs, and what it repeats
	defer run.Close()
	v, err := run.Do(ctx, redisx.Command("HGET", space.Meta(), "partitions"))
	if err != nil {
		return fmt.Errorf("worker: read %s from Redis: %w", space.Meta(), err)
	}
	n, err := redisx.Int(v)
	switch {
	case err != nil:
		return fmt.Errorf("worker: read %s from Redis: %w", space.Meta(), err)
	case v != nil && int(n) != w.conn.Partitions():
		return fmt.Errorf("worker: namespace %s has %d partitions in Redis and %d in NATS: these two do not belong together",
			w.cfg.Namespace, n, w.conn.Partitions())
	}
	return nil
}

// Ready is nil while the worker takes tasks and can claim them; else it says what is missing,
// or that too many abandoned activities still run (see Config.MaxAbandoned): then it still
// takes tasks, but should be started anew. It asks Redis, and so may take up to a second.
func (w *Worker) Ready() error {
	if err := w.unready(); err != nil {
		return err
	}
	// An idle worker has not asked Redis anything for a while.
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if _, err := w.runner.Do(ctx, redisx.Command("PING")); err != nil {
		return fmt.Errorf("worker: Redis does not answer: %w", err)
	}
	return nil
}

// unready is what Ready knows without asking.
func (w *Worker) unready() error {
	switch w.phase.Load() {
	case fresh:
		return errors.New("worker: not started")
	case starting:
		if err := w.outage.Waiting(); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return errors.New("worker: not started: waiting for its namespace")
	case stopping, stopped:
		return errors.New("worker: stopping")
	}
	if !w.cfg.NATS.IsConnected() {
		return fmt.Errorf("worker: not connected to NATS (%s)", w.cfg.NATS.Status())
	}
	if err := w.trouble.Load(); err != nil {
		return fmt.Errorf("worker: %w", *err)
	}
	return w.crowded()
}

// Running is an activity that runs at this moment.
type Running struct {
	lease.Ref

	Name    string
	Queue   string
	Claim   uint32    // how often it was claimed, this time included
	Since   time.Time // when its claim was sent; of an abandoned one, when its grace was over
	Stopped bool      // its context is done
}

// Running lists what runs at this moment, oldest first, without the abandoned.
func (w *Worker) Running() []Running {
	var out []Running
	for _, t := range w.running() {
		out = append(out, t.seen())
	}
	slices.SortFunc(out, func(a, b Running) int { return a.Since.Compare(b.Since) })
	return out
}

func (t *task) seen() Running {
	return Running{
		Ref: t.ref, Name: t.task.Name, Queue: t.task.Queue, Claim: t.claim, Since: t.since,
		Stopped: t.hold.Context().Err() != nil,
	}
}

// redisAnswered notes whether Redis is well, for Ready.
func (w *Worker) redisAnswered(err error) {
	if err != nil {
		w.trouble.Store(&err)
		w.last.Store(&ailment{err: err, at: time.Now()})
	} else if w.trouble.Load() != nil {
		w.trouble.Store(nil)
	}
}

// hinted takes the news that leases were deleted, and the questions whether they are held.
func (w *Worker) hinted(news []queue.Hint) {
	hints := make([]lease.Hint, 0, len(news))
	var doubted []queue.Hint
	for _, n := range news {
		if n.Token != "" {
			doubted = append(doubted, n)
			continue
		}
		cause := pawl.Cancelled{Reason: n.Reason, By: n.By, Text: n.Text}
		if n.At != 0 {
			cause.At = time.UnixMilli(n.At).UTC()
		}
		hints = append(hints, lease.Hint{Instance: n.Instance, Effect: n.Effect, Cause: cause})
	}
	if len(hints) > 0 {
		w.keeper.Hint(hints...)
	}
	if len(doubted) > 0 {
		w.settleDoubts(doubted)
	}
}
