package redisx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"
)

// EvictionError reports a Redis that may evict keys.
type EvictionError struct{ Policy string }

// Error returns the policy, the reason why it is refused, and the remedy.
func (e *EvictionError) Error() string {
	return fmt.Sprintf("redis has maxmemory-policy %s: it may evict history and leases when memory runs out; "+
		"set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf)", e.Policy)
}

// ErrRing is the error of an unsupported client type.
var ErrRing = errors.New("redis.Ring reads keys from other nodes while their node is unavailable, and does not find them there: use a cluster, sentinels or one node")

// CheckPolicy returns an *EvictionError if any master may evict keys. It waits for the reply of every master, with its own timeouts. A
// server that does not permit the query, as managed ones often do not, is accepted with a warning.
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

// checkNode checks one master. It waits only briefly for a node that hangs, because a replica may be elected in its place.
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

// masters returns the nodes that accept writes.
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

// evictionPolicy returns the eviction policy. It tries two commands, because hosted servers forbid one or the other. miniredis has
// neither and evicts nothing.
func evictionPolicy(ctx context.Context, node redis.Cmdable) (string, error) {
	config, err := node.ConfigGet(ctx, "maxmemory-policy").Result()
	if policy := config["maxmemory-policy"]; err == nil && policy != "" {
		return policy, nil
	}
	info, infoErr := node.Info(ctx, "memory").Result()
	if policy, ok := infoOf(info)["maxmemory_policy"]; ok {
		return policy, nil
	}
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		return "noeviction", nil
	}
	return "", errors.Join(err, infoErr)
}
