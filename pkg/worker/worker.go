package worker

import (
	"cmp"
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
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Errors of New and Start; match them with errors.Is.
var (
	// ErrNothingRegistered is returned by New without activities.
	ErrNothingRegistered = errors.New("worker: no activities are registered: pass bindings to worker.New, such as Charge.Do(svc.charge)")
	// ErrStarted is returned by a second Start, and by Start after Stop.
	ErrStarted = errors.New("worker: already started or stopped; make another")
)

// Worker runs activities. Make one with New. Its methods are safe for concurrent use.
type Worker struct {
	services // set by Start

	cfg      Config
	registry *author.Registry
	log      *slog.Logger
	count    *metrics
	outage   *outage.Reporter
	tokens   tokens  // generates the tokens of claims
	handler  Handler // runs an activity within the interceptors; nil: there are none

	phase     atomic.Int32
	startedAt time.Time
	ended     chan struct{} // closed when Stop has finished
	health    health

	tasks        taskSet
	abandonedLog abandonedLog
	acks         acks // acknowledged recently; Redis may lose them
}

// tokens generates the tokens of a worker's claims.
type tokens struct {
	prefix string // unique per worker and start
	claims atomic.Uint64
}

// The phases of a worker.
const (
	created int32 = iota
	starting
	taking
	draining // takes no more tasks; running activities may finish
	stopping
	stopped
)

// New returns a worker that runs the activities. It does no I/O. The error is ErrNothingRegistered; wraps pawl.ErrBadName or
// pawl.ErrDuplicate; or describes an invalid field of cfg or metrics that cannot be registered.
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
	reporter := outage.New(cfg.Logger)
	w := &Worker{
		cfg: cfg, registry: registry, outage: reporter, log: reporter.Logger().With("worker", cfg.Name),
		tokens: tokens{prefix: rand.Text()[:16]}, ended: make(chan struct{}), tasks: newTaskSet(),
	}
	w.handler = intercepted(cfg.Interceptors)
	if w.count, err = newMetrics(cfg.Metrics, w); err != nil {
		return nil, err
	}
	return w, nil
}

// Name returns the name of the worker, as leases and histories record it.
func (w *Worker) Name() string { return w.cfg.Name }

// Start connects the worker and starts taking tasks. ctx bounds the start only: until ctx ends, Start waits for the namespace to be
// created, and for Redis, NATS and JetStream to become available; meanwhile the error of Ready names what it waits for. Start fails at
// once if waiting cannot help: a wrong password, a Redis that may evict keys, a namespace with different settings. After an error nothing
// is left running, and the worker cannot be started again. A second Start returns ErrStarted.
func (w *Worker) Start(ctx context.Context) error {
	if !w.phase.CompareAndSwap(created, starting) {
		return ErrStarted
	}
	w.reportOutages(ctx)
	if err := w.open(ctx); err != nil {
		w.phase.Store(stopping)
		for _, q := range w.queues {
			q.stop()
		}
		w.close()
		return err
	}
	for _, q := range w.queues {
		q.start(w.slots(q.name))
	}
	w.phase.Store(taking)
	w.log.Info("worker started", "namespace", w.cfg.Namespace, "partitions", w.conn.Partitions(),
		"activities", strings.Join(w.registry.Activities(), " "), "queues", len(w.queues), "concurrency", w.cfg.Concurrency)
	return nil
}

// slots returns the number of slots for a queue.
func (w *Worker) slots(queue string) int {
	return cmp.Or(w.cfg.QueueConcurrency[queue], w.cfg.Concurrency)
}

// reportOutages runs the outage reporter and the NATS probe until stopReporter is called.
func (w *Worker) reportOutages(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { w.outage.Run(ctx) })
	wg.Go(func() { w.count.nats.ProbeNATS(ctx, w.cfg.NATS) })
	w.stopReporter = func() { stop(); wg.Wait() }
}

// readyTimeout bounds the request of Ready, so that a readiness probe with a timeout of one second receives the cause.
const readyTimeout = 500 * time.Millisecond

// Ready returns nil if the worker takes tasks and can claim them, and otherwise an error that names the cause. It also returns an error
// if more than Config.MaxAbandoned abandoned activities still run: the worker continues to take tasks then, but should be restarted.
// Ready sends a request to Redis and may take up to half a second.
func (w *Worker) Ready() error {
	if err := w.notReady(); err != nil {
		return err
	}
	// An idle worker has sent no request to Redis recently.
	ctx, stop := context.WithTimeout(context.Background(), readyTimeout)
	defer stop()
	ping := redisx.Command("PING")
	ping.Within = readyTimeout
	if _, err := w.runner.Do(ctx, ping); err != nil {
		return fmt.Errorf("worker: redis did not reply: %w", err)
	}
	return nil
}

// notReady returns the error of Ready, as far as it is known without a request.
func (w *Worker) notReady() error {
	switch w.phase.Load() {
	case created:
		return errors.New("worker: not started")
	case starting:
		if err := w.outage.Waiting(); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return errors.New("worker: not started: waiting for its namespace")
	case draining:
		return errDraining
	case stopping, stopped:
		return errors.New("worker: stopping")
	}
	if !w.cfg.NATS.IsConnected() {
		return fmt.Errorf("worker: not connected to NATS (%s)", w.cfg.NATS.Status())
	}
	if err := w.health.failing.Load(); err != nil {
		return fmt.Errorf("worker: %w", *err)
	}
	return w.tooManyAbandoned()
}

// Running describes a running or abandoned activity.
type Running struct {
	Instance  string
	Execution uint64
	Activity  uint64 // event id of the schedule of the activity
	Name      string
	Queue     string
	Claim     uint32    // number of claims of its lease, including this one
	Since     time.Time // time of its claim; for an abandoned activity, the end of its grace period
	Stopped   bool      // its context has ended
	Stack     string    // for an abandoned activity: its stack when it was abandoned
}

// Running lists the running activities, oldest first, without the abandoned ones; see Abandoned.
func (w *Worker) Running() []Running {
	var out []Running
	for _, t := range w.tasks.running() {
		out = append(out, t.describe())
	}
	slices.SortFunc(out, func(a, b Running) int { return a.Since.Compare(b.Since) })
	return out
}

func (t *task) describe() Running {
	return Running{
		Instance: t.ref.Instance, Execution: t.ref.Execution, Activity: t.ref.Activity, Name: t.task.Name, Queue: t.task.Queue, Claim: t.claims, Since: t.since,
		Stopped: t.state.hold.Context().Err() != nil, Stack: t.state.stack,
	}
}

// onHints handles hints: notices of deleted leases, and owners' queries about claims.
func (w *Worker) onHints(hints []message.Hint) {
	deleted := make([]leases.Hint, 0, len(hints))
	var claims []message.Hint
	for _, h := range hints {
		if h.Token != "" {
			claims = append(claims, h)
			continue
		}
		cause := pawl.Cancelled{Reason: h.Reason, By: h.By, Text: h.Text}
		if h.At != 0 {
			cause.At = time.UnixMilli(h.At).UTC()
		}
		deleted = append(deleted, leases.Hint{Instance: h.Instance, Effect: h.Effect, Cause: cause})
	}
	if len(deleted) > 0 {
		w.keeper.Hint(deleted...)
	}
	if len(claims) > 0 {
		w.confirmClaims(claims)
	}
}
