package cancel

import (
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/stack"
)

// settings configure a member.
type settings struct {
	Role      string        `json:"role"` // orchestrator or worker
	Name      string        `json:"name"`
	NATS      string        `json:"nats"`
	Redis     string        `json:"redis"` // host:port
	Namespace string        `json:"namespace"`
	Ledger    string        `json:"ledger"`
	TTL       time.Duration `json:"ttl"`
	Only      []string      `json:"only"` // activities of the worker; empty: all
}

// partitions is small enough to choose ids by partition, and greater than the number of orchestrators.
const partitions = 4

// eventLimit is the maximum number of events, at which an orchestration fails.
const eventLimit = 200

func fleet(s settings) error {
	return stack.Serve(s.NATS, &redis.Options{Addr: s.Redis, ReadTimeout: time.Second, MaxRetries: -1}, s.member)
}

func (s settings) member(nc *nats.Conn, rdb redis.UniversalClient) (stack.Member, error) {
	if s.Role == "orchestrator" {
		return orchestrator.New(orchestrator.Config{
			NATS: nc, Redis: rdb, Namespace: s.Namespace, Partitions: partitions, ReconcileInterval: 500 * time.Millisecond,
			MaxClaims: maxClaims, OwnerTTL: 20 * time.Second, TurnLimit: 20 * time.Second, Logger: slog.Default(),
			Limits: orchestrator.Limits{Events: eventLimit},
		}, orchestrations()...)
	}
	reg := prometheus.NewRegistry()
	w, err := worker.New(worker.Config{
		NATS: nc, Redis: rdb, Namespace: s.Namespace, LeaseTTL: s.TTL, Name: s.Name, Logger: slog.Default(), Metrics: reg,
	}, ledger(s.Ledger).activities(s.Only)...)
	if err != nil {
		return nil, err
	}
	report := func(counts map[string]float64) error {
		return ledger(s.Ledger).write(line{What: "counts", Worker: s.Name, Counts: counts})
	}
	return stack.Counting(w, reg, report), nil
}
