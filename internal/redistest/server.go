package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/aof"
	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/netfault"
)

const (
	pollTimeout  = 60 * time.Second // for a server to become ready
	pollInterval = 5 * time.Millisecond
)

// Server is a redis-server, a child process of the test, on a port of 127.0.0.1. Only the test starts, kills and pauses it. Its methods
// are safe for concurrent use.
type Server struct {
	Addr    string // host:port, the same after a restart
	Dir     string // its working directory: AOF, RDB and redis.log
	args    []string
	cluster bool

	mu   sync.Mutex
	proc *exec.Cmd
}

// Start starts a redis-server and waits until it answers. By default it stores nothing on disk; args are further options of redis-server,
// such as "--appendonly", "yes", "--appendfsync", "always".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := start(t, false, args)
	s.await(t)
	return s
}

// StartLoading starts a redis-server that is loading a number of keys, and takes more than a millisecond for each. It replies LOADING
// meanwhile.
func StartLoading(t testing.TB, keys int) *Server {
	t.Helper()
	s := Start(t, "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	pipe := rdb.Pipeline()
	for i := range keys {
		pipe.Set(ctx, "loaded:"+strconv.Itoa(i), "a value that is not too short", 0)
	}
	pipe.Save(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatalf("store the keys to load: %v", err)
	}
	for loads := false; !loads; { // a test that was paused in the meantime may find that the keys are loaded already
		s.begin(t)
		s.poll(t, func(ctx context.Context, rdb *redis.Client) error {
			err := rdb.Ping(ctx).Err()
			if loads = redis.IsLoadingError(err); loads {
				return nil
			}
			return err
		})
	}
	return s
}

// Cluster starts a Redis Cluster of one node with all slots, and waits until it accepts writes.
func Cluster(t testing.TB, args ...string) *Server {
	t.Helper()
	s := startCluster(t, args...)
	s.awaitCluster(t)
	return s
}

// startCluster starts a node with all slots. awaitCluster waits until it accepts writes.
func startCluster(t testing.TB, args ...string) *Server {
	t.Helper()
	s := start(t, true, append([]string{
		"--cluster-enabled", "yes", "--cluster-port", freePort(t), "--cluster-announce-ip", "127.0.0.1",
	}, args...))
	s.await(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = rdb.Close() }()
	if err := rdb.ClusterAddSlotsRange(context.Background(), 0, 16383).Err(); err != nil {
		t.Fatalf("assign the slots: %v", err)
	}
	return s
}

func start(t testing.TB, cluster bool, args []string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not on PATH; install it (Debian: apt-get install redis-server, macOS: brew install redis)")
	}
	port := freePort(t)
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", port), Dir: t.TempDir(), cluster: cluster}
	s.args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--logfile", filepath.Join(s.Dir, "redis.log"),
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
	}, args...)
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Client returns a new client of the server. It is closed when the test ends.
func (s *Server) Client(t testing.TB) redis.UniversalClient {
	t.Helper()
	if !s.cluster {
		return client(t, s.Addr)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Proxy starts a proxy in front of the server, and returns it with a client that connects through it. Both are closed when the test ends.
func (s *Server) Proxy(t testing.TB) (*netfault.Proxy, redis.UniversalClient) {
	t.Helper()
	p, err := netfault.Listen(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, client(t, p.Addr())
}

// Kill ends the process with SIGKILL and waits for its end. It does nothing if the server is not running.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	_ = s.proc.Process.Kill()
	_ = s.proc.Wait()
	s.proc = nil
}

// Restart kills the server, repairs its AOF, starts it again on its port and directory, and waits until it answers. Without an AOF its
// data is gone, including loaded scripts.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.begin(t)
	s.await(t)
}

// begin restarts the server as Restart does, but does not wait until it answers.
func (s *Server) begin(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the process with SIGSTOP until Resume: it accepts connections and answers nothing.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		_ = s.proc.Process.Signal(sig)
	}
}

func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := aof.Repair(context.Background(), "redis-server", s.dataDir()); err != nil {
		return err
	}
	cmd := exec.Command("redis-server", s.args...)
	cmd.SysProcAttr = DieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	s.proc = cmd
	return nil
}

// dataDir returns the data directory: the value of the last --dir option.
func (s *Server) dataDir() (dir string) {
	for i, arg := range s.args[:len(s.args)-1] {
		if arg == "--dir" {
			dir = s.args[i+1]
		}
	}
	return dir
}

func (s *Server) await(t testing.TB) {
	t.Helper()
	s.poll(t, func(ctx context.Context, rdb *redis.Client) error { return rdb.Ping(ctx).Err() })
}

func (s *Server) awaitCluster(t testing.TB) {
	t.Helper()
	s.poll(t, func(ctx context.Context, rdb *redis.Client) error {
		info, err := rdb.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = fmt.Errorf("the cluster is not ready:\n%s", info)
		}
		return err
	})
}

// poll repeats try until it succeeds.
func (s *Server) poll(t testing.TB, try func(context.Context, *redis.Client) error) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pollTimeout)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = rdb.Close() }()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := try(ctx, rdb)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.Dir, "redis.log"))
			t.Fatalf("redis-server at %s is not ready: %v\n%s", s.Addr, err, log)
		case <-tick.C:
		}
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	return strconv.Itoa(freeport.Take(t))
}

// OutOfMemory sets maxmemory so low that Redis refuses every command that may allocate memory, until HasMemory.
func (s *Server) OutOfMemory(t testing.TB) { s.command(t, "CONFIG", "SET", "maxmemory", "1") }

// HasMemory removes the limit of OutOfMemory.
func (s *Server) HasMemory(t testing.TB) { s.command(t, "CONFIG", "SET", "maxmemory", "0") }
