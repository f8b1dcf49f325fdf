package work

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Masters returns a client of several Redis servers that share the slots as the masters of a cluster do, each an equal part
// in the given order. The servers are not connected to each other, so that each can be killed, and can lose writes,
// separately.
func Masters(addrs []string) *redis.ClusterClient {
	const slots = 16384
	share := slots / len(addrs)
	return redis.NewClusterClient(&redis.ClusterOptions{DisableIdentity: true, ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		all := make([]redis.ClusterSlot, len(addrs))
		for i, addr := range addrs {
			all[i] = redis.ClusterSlot{Start: i * share, End: (i+1)*share - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}
		}
		all[len(all)-1].End = slots - 1
		return all, nil
	}})
}
