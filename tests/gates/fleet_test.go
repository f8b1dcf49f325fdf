package gates

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

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

// role is the variable that makes the test binary a member of a fleet, with these settings.
const role = "GATES_TEST_ROLE"

// settings are what a member is told.
type settings struct {
	Role      string        `json:"role"` // orchestrator or worker
	Name      string        `json:"name"`
	NATS      string        `json:"nats"`
	Redis     string        `json:"redis"` // host:port
	Namespace string        `json:"namespace"`
	TTL       time.Duration `json:"ttl"`    // of leases
	Only      string        `json:"only"`   // activity of the worker; empty: all but the one whose workers are killed
	Global    int           `json:"global"` // limit of whatever has none; 0: none
}

// maxClaims is how many workers a poison may kill.
const maxClaims = 3

// partitions are more than there are orchestrators.
const partitions = 8

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
	rdb := redis.NewClient(&redis.Options{Addr: s.Redis})
	defer func() { _ = rdb.Close() }()
	reg := prometheus.NewRegistry()
	m, err := s.member(nc, rdb, reg)
	if err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	slog.Info("started", "role", s.Role)
	counted := tellCounts(ctx, rdb, s.Name, reg)
	<-ctx.Done()
	<-counted
	drain, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	return m.Stop(drain)
}

// member is either of the two.
type member interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

func (s settings) member(nc *nats.Conn, rdb redis.UniversalClient, reg prometheus.Registerer) (member, error) {
	if s.Role == "orchestrator" {
		var global []pawl.LimitOption
		if s.Global > 0 {
			global = append(global, pawl.Concurrency(s.Global))
		}
		return orchestrator.New(orchestrator.Config{
			NATS: nc, Redis: rdb, Namespace: s.Namespace, Partitions: partitions, Look: 500 * time.Millisecond, MaxClaims: maxClaims,
			OwnerTTL: 2 * time.Second, Global: global, Logger: slog.Default(), Metrics: reg,
		}, orchestrations()...)
	}
	// Those who hold wait in Redis, each with a connection.
	stays := redis.NewClient(&redis.Options{Addr: s.Redis, PoolSize: 100})
	w, err := worker.New(worker.Config{
		NATS: nc, Redis: rdb, Namespace: s.Namespace, LeaseTTL: s.TTL, Name: s.Name, Logger: slog.Default(), Metrics: reg,
	}, book{stays}.activities(s.Only)...)
	return visitors{w, stays}, err
}

// visitors is a worker, and the connections of its activities.
type visitors struct {
	*worker.Worker
	rdb *redis.Client
}

func (v visitors) Stop(ctx context.Context) error {
	return errors.Join(v.Worker.Stop(ctx), v.rdb.Close())
}

// tellCounts writes what the member has counted into Redis whenever it gets SIGUSR1, until ctx ends.
func tellCounts(ctx context.Context, rdb redis.UniversalClient, name string, reg prometheus.Gatherer) <-chan struct{} {
	done := make(chan struct{})
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		defer close(done)
		defer signal.Stop(asked)
		for {
			select {
			case <-asked:
				if err := tell(ctx, rdb, name, reg); err != nil {
					slog.Error("counts", "error", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return done
}

func tell(ctx context.Context, rdb redis.UniversalClient, name string, reg prometheus.Gatherer) error {
	families, err := reg.Gather()
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
	text, err := json.Marshal(counts)
	if err != nil {
		return err
	}
	return rdb.RPush(ctx, "counts:"+name, text).Err()
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
