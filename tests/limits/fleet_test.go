package limits

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
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
	TTL       time.Duration `json:"ttl"`    // lease TTL
	Only      string        `json:"only"`   // the only activity of the worker; empty: all but those that kill their workers
	Global    int           `json:"global"` // concurrency of actions without a policy; 0: unlimited
}

// maxClaims is the number of workers that a poison activity may kill.
const maxClaims = 3

// partitions is greater than the number of orchestrators.
const partitions = 8

func fleet(s settings) error {
	return stack.Serve(s.NATS, &redis.Options{Addr: s.Redis}, func(nc *nats.Conn, rdb redis.UniversalClient) (stack.Member, error) {
		reg := prometheus.NewRegistry()
		m, err := s.member(nc, rdb, reg)
		if err != nil {
			return nil, err
		}
		return stack.Counting(m, reg, func(counts map[string]float64) error {
			text, err := json.Marshal(counts)
			if err != nil {
				return err
			}
			return rdb.RPush(context.Background(), "counts:"+s.Name, text).Err()
		}), nil
	})
}

func (s settings) member(nc *nats.Conn, rdb redis.UniversalClient, reg prometheus.Registerer) (stack.Member, error) {
	if s.Role == "orchestrator" {
		var global []pawl.LimitOption
		if s.Global > 0 {
			global = append(global, pawl.Concurrency(s.Global))
		}
		return orchestrator.New(orchestrator.Config{
			NATS: nc, Redis: rdb, Namespace: s.Namespace, Partitions: partitions, ReconcileInterval: 500 * time.Millisecond, MaxClaims: maxClaims,
			OwnerTTL: 2 * time.Second, Global: global, Logger: slog.Default(), Metrics: reg,
		}, orchestrations()...)
	}
	// Each holder waits in Redis, on a connection of its own. A write that is slow must not be repeated, because it would count twice.
	stays := redis.NewClient(&redis.Options{Addr: s.Redis, PoolSize: 100, ReadTimeout: within, MaxRetries: -1})
	w, err := worker.New(worker.Config{
		NATS: nc, Redis: rdb, Namespace: s.Namespace, LeaseTTL: s.TTL, Name: s.Name, Logger: slog.Default(), Metrics: reg,
	}, recorder{stays}.activities(s.Only)...)
	return visitors{w, stays}, err
}

// visitors is a worker with the connections of its activities.
type visitors struct {
	*worker.Worker
	rdb *redis.Client
}

func (v visitors) Stop(ctx context.Context) error {
	return errors.Join(v.Worker.Stop(ctx), v.rdb.Close())
}
