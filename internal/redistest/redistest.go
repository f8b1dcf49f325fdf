// Package redistest starts Redis servers for tests: miniredis, a redis-server, and a Redis Cluster of one node. Each finds mistakes that
// the others hide: on miniredis a test can set the time, the server has the real Lua, and the cluster refuses a script whose keys are
// undeclared or in two slots.
//
// All servers end with the test that started them, except the cluster of All and the servers of Lasting, which the tests of a package
// share. Namespace separates the keys of tests on the same server.
package redistest

import (
	"crypto/rand"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// shared is the cluster of All. A node takes two seconds to accept writes, for which a package waits only once.
var shared struct {
	sync.Mutex
	cluster *Server
}

// ends are the cleanups of servers that the tests of a package share.
var ends struct {
	sync.Mutex
	all []func()
}

// Main is the TestMain of a package that uses All or Lasting. It runs the tests, ends the shared servers, and fails if a goroutine is
// left.
func Main(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

type tests struct{ *testing.M }

// Run runs the tests and ends the shared servers.
func (t tests) Run() int {
	code := t.M.Run()
	for _, end := range slices.Backward(ends.all) {
		end()
	}
	return code
}

// lasting wraps the test that starts a shared server, whose cleanup runs at the end of the process.
type lasting struct{ testing.TB }

// Lasting wraps the first test that needs a server, so that it starts the server for all tests of the package. The TestMain of the
// package must be Main.
func Lasting(t testing.TB) testing.TB { return lasting{t} }

// Failed reports false, because shared servers outlast the test.
func (lasting) Failed() bool { return false }

// Cleanup calls f at the end of the process.
func (lasting) Cleanup(f func()) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, f)
}

// TempDir creates a directory that is removed at the end of the process.
func (l lasting) TempDir() string {
	dir, err := os.MkdirTemp("", "pawl-shared-redis-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func sharedCluster(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		shared.cluster = startCluster(lasting{t})
	}
	return shared.cluster
}

// All runs a subtest on each of the three kinds. The tests of a package share the cluster, so their keys must be in a Namespace. The
// TestMain of the package must be Main.
func All(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	sharedCluster(t) // becomes ready while the tests run on the other two
	t.Run("miniredis", func(t *testing.T) {
		_, rdb := MiniClient(t)
		f(t, rdb)
	})
	Real(t, f)
}

// Real runs a subtest on the redis-server and on the cluster, for tests with much data, which take ten times as long in the Lua of
// miniredis.
func Real(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	cluster := sharedCluster(t)
	t.Run("server", func(t *testing.T) { f(t, Start(t).Client(t)) })
	t.Run("cluster", func(t *testing.T) {
		cluster.awaitCluster(t)
		f(t, cluster.Client(t))
	})
}

// MiniClient starts a miniredis, and returns it with a client. Its SetTime sets the time that scripts read with TIME; by default it is
// the machine's time.
func MiniClient(t testing.TB) (*miniredis.Miniredis, redis.UniversalClient) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatalf("start miniredis: %v", err)
	}
	t.Cleanup(m.Close)
	return m, connect(t, &redis.Options{Addr: m.Addr(), ReadTimeout: time.Minute}) // its Lua runs in the process of the test
}

// Namespace returns a name that no other test on the same server uses.
func Namespace() string { return "t" + rand.Text()[:10] }

func client(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	return connect(t, &redis.Options{Addr: addr})
}

func connect(t testing.TB, o *redis.Options) redis.UniversalClient {
	t.Helper()
	o.DisableIdentity = true
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
