package redisx

import (
	"context"
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

// CheckPolicy refuses a Redis that may evict keys. A server that does not let itself be asked
// (managed ones often do not) is believed, with a warning.
func CheckPolicy(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis does not answer: %w", err)
	}
	got, err := rdb.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		if !strings.Contains(err.Error(), "unknown") {
			log.Warn("Redis does not say its maxmemory-policy; it must be noeviction", "error", err)
		}
		return nil
	}
	if p := got["maxmemory-policy"]; p != "" && p != "noeviction" {
		return &EvictionError{Policy: p}
	}
	return nil
}
