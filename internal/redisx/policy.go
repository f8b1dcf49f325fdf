package redisx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"
)

// EvictionError is a Redis that may throw keys away.
type EvictionError struct{ Policy string }

// Error says what it is set to, why that is refused, and what to do.
func (e *EvictionError) Error() string {
	return fmt.Sprintf("redis has maxmemory-policy %s: it may throw away history and leases when memory runs out; "+
		"set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf)", e.Policy)
}

// CheckPolicy refuses a Redis of which any master may evict keys. A server that does not let
// itself be asked (managed ones often do not) is believed, with a warning.
func CheckPolicy(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	check := func(ctx context.Context, node redis.Cmdable) error {
		policy, err := evictionPolicy(ctx, node)
		switch {
		case err != nil:
			log.Warn("Redis does not tell its maxmemory-policy; it must be noeviction", "error", err)
		case policy != "noeviction":
			return &EvictionError{Policy: policy}
		}
		return nil
	}
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis does not answer: %w", err)
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return check(ctx, node) })
	}
	return check(ctx, rdb)
}

// evictionPolicy asks in both ways that there are: hosted servers forbid the one or the other,
// and miniredis knows neither, and evicts nothing.
func evictionPolicy(ctx context.Context, node redis.Cmdable) (string, error) {
	config, err := node.ConfigGet(ctx, "maxmemory-policy").Result()
	if policy := config["maxmemory-policy"]; err == nil && policy != "" {
		return policy, nil
	}
	info, infoErr := node.Info(ctx, "memory").Result()
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			return strings.TrimSpace(policy), nil
		}
	}
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		return "noeviction", nil
	}
	return "", errors.Join(err, infoErr)
}
