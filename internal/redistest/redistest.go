// Package redistest gives tests a Redis: miniredis, a redis-server, and a Redis
// Cluster of one node. Each finds mistakes that the others hide: miniredis lets a
// test set the time, the server has the real Lua, the cluster refuses a script
// whose keys are undeclared or in two slots.
//
// Whatever a test starts here ends with the test. Keys of two tests on one server
// are kept apart by Namespace.
package redistest

import (
	"crypto/rand"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// All runs a subtest on each of the three. Starting the cluster takes two seconds,
// so put the cases of a suite inside one All rather than one All into each case.
func All(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	cluster := startCluster(t) // becomes ready while the other two are at work
	t.Run("miniredis", func(t *testing.T) { f(t, client(t, Mini(t).Addr())) })
	t.Run("server", func(t *testing.T) { f(t, Start(t).Client(t)) })
	t.Run("cluster", func(t *testing.T) {
		cluster.awaitCluster(t)
		f(t, cluster.Client(t))
	})
}

// Mini starts a miniredis. Its SetTime sets what the scripts get from TIME; until then that is the machine's time.
func Mini(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatalf("start miniredis: %v", err)
	}
	t.Cleanup(m.Close)
	return m
}

// MiniClient starts a miniredis and gives it together with a client.
func MiniClient(t testing.TB) (*miniredis.Miniredis, redis.UniversalClient) {
	t.Helper()
	m := Mini(t)
	return m, client(t, m.Addr())
}

// Namespace gives a name that no other test on the same server uses.
func Namespace() string { return "t" + rand.Text()[:10] }

func client(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
