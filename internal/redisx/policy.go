package redisx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"
)

// EvictionError is a Redis that may evict keys.
type EvictionError struct{ Policy string }

// Error returns the policy, why it is refused, and what to do.
func (e *EvictionError) Error() string {
	return fmt.Sprintf("redis has maxmemory-policy %s: it may throw away history and leases when memory runs out; "+
		"set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf)", e.Policy)
}

// ErrRing is the error of an unsupported client.
var ErrRing = errors.New("redis.Ring moves keys to other nodes while one is away, where they are not: use a cluster, sentinels or one node")

// CheckPolicy refuses a Redis of which any master may evict keys, and waits for the reply of every master within timeouts of its
// own. A server that does not permit the query (managed ones often do not) is accepted, with a warning.
func CheckPolicy(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	nodes, err := masters(ctx, rdb)
	if err != nil {
		return err
	}
	answers := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() { answers <- checkNode(ctx, node, log) }()
	}
	for range nodes {
		e := <-answers
		var evicts *EvictionError
		if err == nil || errors.As(e, &evicts) {
			err = e
		}
	}
	return err
}

// checkNode does not wait long for a node that hangs: a replica may be elected in its place meanwhile.
func checkNode(ctx context.Context, node redis.Cmdable, log *slog.Logger) error {
	if err := bounded(node, pingTimeout).Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis does not answer: %w", err)
	}
	node = bounded(node, callTimeout)
	policy, err := evictionPolicy(ctx, node)
	switch {
	case Unavailable(err):
		return fmt.Errorf("redis: read maxmemory-policy: %w", err)
	case err != nil:
		log.Warn("redis maxmemory-policy unreadable, assuming noeviction", "error", err)
	case policy != "noeviction":
		return &EvictionError{Policy: policy}
	}
	return nil
}

// masters lists the nodes that take writes.
func masters(ctx context.Context, rdb redis.UniversalClient) ([]redis.Cmdable, error) {
	switch c := rdb.(type) {
	case *redis.Ring:
		return nil, ErrRing
	case *redis.ClusterClient:
		s := newSlotMap(c)
		defer s.end()
		for !s.loaded() && ctx.Err() == nil {
			s.reload(ctx)
		}
		found, err := s.latest()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("redis does not answer: %w", err)
		}
		nodes := make([]redis.Cmdable, len(found))
		for i, n := range found {
			nodes[i] = n
		}
		return nodes, nil
	default:
		return []redis.Cmdable{rdb}, nil
	}
}

// evictionPolicy tries both commands: hosted servers forbid the one or the other, and miniredis has neither, and evicts nothing.
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
