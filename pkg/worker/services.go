package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/promx"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
)

// ackWait is the time after which NATS redelivers a message that was not acked because its worker was killed, stopped or disconnected. It
// is longer than the time for which a worker keeps a task with an unanswered claim.
const ackWait = 2 * claimTimeout

// services are the connections and goroutines of a started worker. See close for the order in which they end.
type services struct {
	runner            *redisx.Runner
	conn              *transport.Conn
	unregisterMetrics func() // metrics of conn
	leases            *leases.Scripts
	keeper            *leases.Keeper
	nodes             *redisNodes
	doorbells         *doorbellSender
	reports           *reporter
	hints             *transport.Subscription
	requests          *transport.Subscription // status requests of pawl workers
	drains            *transport.Subscription // drain requests of operators
	queues            []*intake
	stopReporter      func() // ends the outage reporter
}

// awaitRedis repeats attempt until Redis is available or ctx ends.
func (w *Worker) awaitRedis(ctx context.Context, operation string, attempt func(context.Context) error) error {
	return w.outage.Await(ctx, outage.Redis, operation, redisx.Unavailable, attempt)
}

// open starts the services. On error some of them are set and must be closed.
func (w *Worker) open(ctx context.Context) error {
	err := w.awaitRedis(ctx, "check settings", func(ctx context.Context) error { return redisx.CheckPolicy(ctx, w.cfg.Redis, w.log) })
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if w.conn, err = w.join(ctx); err != nil {
		return fmt.Errorf("worker: namespace %s: %w", w.cfg.Namespace, err)
	}
	if w.unregisterMetrics, err = promx.RegisterConn(w.cfg.Metrics, "worker", w.conn); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	space := redisx.NewSpace(w.cfg.Namespace)
	if err = w.awaitRedis(ctx, "compare partitions", func(ctx context.Context) error { return w.checkPartitions(ctx, space) }); err != nil {
		return err
	}
	w.runner = redisx.NewRunner(w.cfg.Redis).ReportTo(w.outage).Time(w.count.redis.Observe)
	w.leases = leases.New(w.runner, space)
	reasons := &reasonFinder{runner: w.runner, space: space}
	w.keeper = leases.NewKeeper(w.leases, w.cfg.LeaseTTL, reasons.reasonsOf, w.log)
	w.doorbells = newDoorbellSender(w.conn)
	w.reports = newReporter(w.leases, w.log)
	if w.hints, err = w.conn.OnHints(w.cfg.Name, w.onHints); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	for _, name := range w.registry.Queues() {
		q, err := newIntake(ctx, w, name)
		if err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		w.queues = append(w.queues, q)
	}
	w.nodes = newRedisNodes(w)
	w.startedAt = time.Now()
	if w.requests, err = request.ServeWorker(w.conn, w.info); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if w.drains, err = w.conn.ServeDrain(w.drain); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// join opens the namespace. If it does not exist yet, join waits until an orchestrator has created it.
func (w *Worker) join(ctx context.Context) (*transport.Conn, error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for logged := false; ; logged = true {
		conn, err := transport.Join(ctx, w.cfg.NATS, transport.Options{
			Namespace: w.cfg.Namespace, Partitions: w.cfg.Partitions, AckWait: min(w.cfg.LeaseTTL, ackWait), ReplyPrefixes: w.cfg.ReplyPrefixes,
			Local: (*transport.Local)(w.cfg.Local), Logger: w.cfg.Logger, Outage: w.outage,
		})
		if err == nil || !errors.Is(err, transport.ErrNoNamespace) {
			return conn, err
		}
		if !logged {
			w.log.Info("waiting for an orchestrator to create the namespace", "namespace", w.cfg.Namespace)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// checkPartitions checks that Redis and the streams have the same number of partitions, if Redis records a number. With different numbers
// every lease would appear to be deleted.
func (w *Worker) checkPartitions(ctx context.Context, space redisx.Space) error {
	run := redisx.NewRunner(w.cfg.Redis) // applies its timeouts and retries
	defer run.Close()
	read := make([]any, 2)
	for i, field := range []string{"partitions", "resize"} {
		v, err := run.Do(ctx, redisx.Command("HGET", space.Meta(), field)) // the permissions of a worker exclude HMGET on this key
		if err != nil {
			return fmt.Errorf("worker: read %s from Redis: %w", space.Meta(), err)
		}
		read[i] = v
	}
	r := redisx.NewReply(read)
	n := r.Int(0)
	switch {
	case r.Err() != nil:
		return fmt.Errorf("worker: read %s from Redis: %w", space.Meta(), r.Err())
	case r.Str(1) != "":
		return fmt.Errorf("worker: namespace %s: %w", w.cfg.Namespace, &partition.ResizedError{})
	case n != 0 && int(n) != w.conn.Partitions():
		return fmt.Errorf("worker: namespace %s has %d partitions in Redis and %d in NATS: they do not belong together",
			w.cfg.Namespace, n, w.conn.Partitions())
	}
	return nil
}

// close ends the services that have been started. Subscriptions end before the objects that their handlers use.
func (w *Worker) close() {
	for _, s := range []*transport.Subscription{w.requests, w.drains} {
		if s != nil {
			s.Stop()
		}
	}
	if w.hints != nil {
		w.hints.Stop()
	}
	if w.nodes != nil {
		w.nodes.stop()
	}
	if w.reports != nil {
		w.reports.stop()
	}
	if w.keeper != nil {
		w.keeper.Stop()
	}
	if w.runner != nil {
		w.runner.Close()
	}
	if w.doorbells != nil {
		w.doorbells.stop()
	}
	if w.unregisterMetrics != nil {
		w.unregisterMetrics()
	}
	if w.conn != nil {
		w.conn.Close()
	}
	if w.stopReporter != nil {
		w.stopReporter()
	}
	w.count.unregister()
	w.phase.Store(stopped)
	close(w.ended)
}
