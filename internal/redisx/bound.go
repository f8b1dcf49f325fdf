package redisx

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ErrRestarted is the error of a bound client whose master has been replaced or restarted.
var ErrRestarted = errors.New("redis was restarted, or another server took over, and may lack acknowledged writes")

// Bound returns a client of the same servers that only communicates with masters that still have every write that they have acknowledged
// to it. A master that was restarted, or that took over from another one, has a new replication id, and is refused with ErrRestarted. So
// code that relies on its earlier writes never continues after a rollback. The user needs the permission for INFO. The caller closes the
// client.
func Bound(ctx context.Context, rdb redis.UniversalClient) (redis.UniversalClient, error) {
	nodes, err := masters(ctx, rdb)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for _, node := range nodes {
		id, err := historyOf(ctx, node)
		if err != nil {
			return nil, err
		}
		known[id] = true
	}
	check := func(then func(context.Context, *redis.Conn) error) func(context.Context, *redis.Conn) error {
		return func(ctx context.Context, node *redis.Conn) error {
			id, err := historyOf(ctx, node)
			switch {
			case err != nil:
				return err
			case !known[id]:
				return ErrRestarted
			case then != nil:
				return then(ctx, node)
			default:
				return nil
			}
		}
	}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		o := *c.Options()
		o.OnConnect = check(o.OnConnect)
		return redis.NewClusterClient(&o), nil
	case *redis.Client:
		o := *c.Options()
		o.OnConnect = check(o.OnConnect)
		return redis.NewClient(&o), nil
	default:
		return nil, fmt.Errorf("redis: %T cannot be bound", rdb)
	}
}

// historyOf returns the replication id of a master. For a replica the error is ErrRestarted, because it may take over during the
// connection.
func historyOf(ctx context.Context, node redis.Cmdable) (string, error) {
	text, err := node.Info(ctx, "replication").Result()
	if err != nil {
		return "", fmt.Errorf("redis: INFO: %w", err)
	}
	info := infoOf(text)
	if info["role"] != "master" || info["master_replid"] == "" {
		return "", ErrRestarted
	}
	return info["master_replid"], nil
}
