// Package redistest gives tests a Redis: miniredis, a redis-server, and a Redis
// Cluster of one node. Each finds mistakes that the others hide: miniredis lets a
// test set the time, the server has the real Lua, the cluster refuses a script
// whose keys are undeclared or in two slots.
//
// Whatever a test starts here ends with the test, except the cluster of All and what is
// Lasting, which a package shares. Keys of two tests on one server are kept apart by Namespace.
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

// shared is the cluster of All: a node takes two seconds until it takes writes, which a package waits for once.
var shared struct {
	sync.Mutex
	cluster *Server
}

// ends end what the tests of a package share.
var ends struct {
	sync.Mutex
	all []func()
}

// Main is the TestMain of a package that uses All or Lasting: it runs the tests, ends what they shared, and fails if a goroutine is left.
func Main(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

type tests struct{ *testing.M }

// Run runs the tests and ends what they shared.
func (t tests) Run() int {
	code := t.M.Run()
	for _, end := range slices.Backward(ends.all) {
		end()
	}
	return code
}

// lasting is the first test that needs what a package shares, which ends with the process instead of with it.
type lasting struct{ testing.TB }

// Lasting lets the first test that needs a server start it for all of a package, whose TestMain is Main.
func Lasting(t testing.TB) testing.TB { return lasting{t} }

// Failed reports false: what is shared outlasts the test.
func (lasting) Failed() bool { return false }

// Cleanup keeps f for the end of the process.
func (lasting) Cleanup(f func()) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, f)
}

// TempDir makes a directory that is removed at the end of the process.
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

// All runs a subtest on each of the three. The tests of a package share the cluster, so that their keys belong into a Namespace. Its
// TestMain is Main.
func All(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	sharedCluster(t) // becomes ready while the other two are at work
	t.Run("miniredis", func(t *testing.T) {
		_, rdb := MiniClient(t)
		f(t, rdb)
	})
	Real(t, f)
}

// Real runs a subtest on the redis-server and on the cluster: what is large takes ten times as long in the Lua of miniredis.
func Real(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	cluster := sharedCluster(t)
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
	return m, connect(t, &redis.Options{Addr: m.Addr(), ReadTimeout: time.Minute}) // its Lua computes in the process of the test
}

// Namespace gives a name that no other test on the same server uses.
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
