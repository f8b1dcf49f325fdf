package cancel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/replay"
	"github.com/pawlrun/pawl/pkg/worker"
)

// role is the variable that makes the test binary a member of a fleet, with these settings.
const role = "CANCEL_TEST_ROLE"

// settings are what a member is told.
type settings struct {
	Role      string        `json:"role"` // orchestrator or worker
	Name      string        `json:"name"`
	NATS      string        `json:"nats"`
	Redis     string        `json:"redis"` // host:port
	Namespace string        `json:"namespace"`
	Ledger    string        `json:"ledger"`
	TTL       time.Duration `json:"ttl"`
	Only      []string      `json:"only"` // activities of the worker; none: all
}

// partitions are few enough to choose ids for, and more than there are orchestrators.
const partitions = 4

// eventLimit lets an orchestration fail for having too long a history.
const eventLimit = 200

func fleet(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := queue.Dial(s.NATS, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { slog.Warn("NATS", "error", err) }))
	if err != nil {
		return err
	}
	defer nc.Close()
	rdb := redis.NewClient(&redis.Options{Addr: s.Redis, ReadTimeout: time.Second, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	m, err := s.member(nc, rdb)
	if err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	slog.Info("started", "role", s.Role)
	<-ctx.Done()
	drain, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	return m.Stop(drain)
}

// member is either of the two.
type member interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

func (s settings) member(nc *nats.Conn, rdb redis.UniversalClient) (member, error) {
	if s.Role == "orchestrator" {
		return orchestrator.New(orchestrator.Config{
			NATS: nc, Redis: rdb, Namespace: s.Namespace, Partitions: partitions, Look: 500 * time.Millisecond,
			MaxClaims: maxClaims, OwnerTTL: 2 * time.Second, TurnLimit: 20 * time.Second, Logger: slog.Default(),
			Limits: replay.Limits{Events: eventLimit},
		}, orchestrations()...)
	}
	reg := prometheus.NewRegistry()
	w, err := worker.New(worker.Config{
		NATS: nc, Redis: rdb, Namespace: s.Namespace, LeaseTTL: s.TTL, Name: s.Name, Logger: slog.Default(), Metrics: reg,
	}, ledger(s.Ledger).activities(s.Only)...)
	if err != nil {
		return nil, err
	}
	return &counted{Worker: w, reg: reg, ledger: ledger(s.Ledger), name: s.Name}, nil
}

// counted writes down what the worker has counted whenever it gets SIGUSR1.
type counted struct {
	*worker.Worker
	reg    *prometheus.Registry
	ledger ledger
	name   string
	quit   chan struct{}
	done   chan struct{}
}

func (c *counted) Start(ctx context.Context) error {
	if err := c.Worker.Start(ctx); err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	c.quit, c.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.done)
		defer signal.Stop(asked)
		for {
			select {
			case <-asked:
				if err := c.count(); err != nil {
					slog.Error("counts", "error", err)
				}
			case <-c.quit:
				return
			}
		}
	}()
	return nil
}

func (c *counted) Stop(ctx context.Context) error {
	close(c.quit)
	<-c.done
	return c.Worker.Stop(ctx)
}

func (c *counted) count() error {
	families, err := c.reg.Gather()
	if err != nil {
		return err
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += "," + l.GetValue()
			}
			counts[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return c.ledger.write(line{What: "counts", Worker: c.name, Counts: counts})
}

// asFleet runs the member that the environment asks for, if it asks for one.
func asFleet() (asked bool) {
	text := os.Getenv(role)
	if text == "" {
		return false
	}
	if err := fleet(text); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	return true
}
