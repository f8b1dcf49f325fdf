package embedded

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/poll"
)

// asParent is an environment variable. If it contains a directory, the test binary starts a stack in it, prints its Redis URL, and waits
// to be killed.
const asParent = "PAWL_TEST_EMBEDDED_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asParent); dir != "" {
		parent(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func parent(dir string) {
	s, err := Start(context.Background(), Options{Dir: dir, Redis: RedisServer})
	if err != nil {
		_, _ = os.Stdout.WriteString("error " + err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(s.RedisURL() + "\n")
	<-s.Done()
}

func start(t *testing.T, o Options) *Stack {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dialRedis(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func needServer(t *testing.T) {
	t.Helper()
	if _, err := findServer(); err != nil {
		t.Skip(err)
	}
}

// connect returns the JetStream of a server, and a function that closes the connection.
func connect(t *testing.T, url string) (js jetstream.JetStream, disconnect func()) {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}

// publish publishes a message to a stream, which it creates if necessary, and returns the number of messages.
func publish(t *testing.T, url string) uint64 {
	t.Helper()
	js, disconnect := connect(t, url)
	defer disconnect()
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

func TestDataOfBothServersSurvivesARestart(t *testing.T) {
	needServer(t)
	dir := t.TempDir()
	for want := uint64(1); want <= 2; want++ {
		s, err := Start(t.Context(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if !s.Persistent() || s.Warning() != "" || s.RedisPID() == 0 {
			t.Errorf("persistent %v, warning %q, pid %d", s.Persistent(), s.Warning(), s.RedisPID())
		}
		if got := publish(t, s.NATSURL()); got != want {
			t.Errorf("start %d: the stream has %d messages", want, got)
		}
		rdb := dialRedis(t, s.RedisURL())
		if got := rdb.Incr(t.Context(), "n").Val(); got != int64(want) {
			t.Errorf("start %d: the counter is at %d", want, got)
		}
		if got := rdb.ConfigGet(t.Context(), "maxmemory-policy").Val()["maxmemory-policy"]; got != "noeviction" {
			t.Errorf("maxmemory-policy %q", got)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if err := s.Err(); err != nil {
			t.Errorf("after Stop: %v", err)
		}
	}
}

// A stream may reserve more than the disk has free.
func TestReservationsAreNotLimitedByTheFreeDiskSpace(t *testing.T) {
	s := start(t, Options{Redis: RedisMemory})
	js, disconnect := connect(t, s.NATSURL())
	defer disconnect()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", MaxBytes: reservable}); err != nil {
		t.Error(err)
	}
}

func TestSecondProcessOnADirectoryIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	start(t, Options{Dir: dir, Redis: RedisMemory})
	_, err := Start(t.Context(), Options{Dir: dir, Redis: RedisMemory})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("%v", err)
	}
}

func TestKilledParentEndsRedisAndLosesNothing(t *testing.T) {
	needServer(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asParent+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line)
	if err := dialRedis(t, url).Set(t.Context(), "kept", "yes", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it has been killed

	// The child shares the lock, so Start returns after the child has ended, for which it waits for a second.
	var s *Stack
	poll.Until(t, time.Minute, "the child has ended", func() bool {
		s, err = Start(t.Context(), Options{Dir: dir, Redis: RedisServer})
		return !errors.Is(err, ErrInUse)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if got := dialRedis(t, s.RedisURL()).Get(t.Context(), "kept").Val(); got != "yes" {
		t.Errorf("got %q", got)
	}
}

func TestRedisThatExitsIsReported(t *testing.T) {
	needServer(t)
	s := start(t, Options{Dir: t.TempDir(), Redis: RedisServer})
	if err := s.Err(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	p, err := os.FindProcess(s.RedisPID())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Err(); !errors.Is(err, errEnded) || strings.Contains(err.Error(), "overcommit") { // a warning at its start
		t.Errorf("%v", err)
	}
}

func TestTakenPortIsAnErrorThatNamesIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	for _, o := range []Options{
		{NATSPort: n, Redis: RedisMemory},
		{RedisPort: n, Redis: RedisMemory},
		{RedisPort: n, Redis: RedisAuto},
	} {
		s, err := Start(t.Context(), o)
		if err == nil {
			_ = s.Stop()
		}
		if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), port) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestForeignRedisIsDetected(t *testing.T) {
	needServer(t)
	other := start(t, Options{Redis: RedisServer})
	mine := start(t, Options{Redis: RedisServer})
	c := mine.redis.child
	if err := c.ready(t.Context(), strings.TrimPrefix(other.RedisURL(), "redis://")); !errors.Is(err, errPortTaken) {
		t.Errorf("%v", err)
	}
}

func TestMissingRedisServerKeepsStateInMemoryWithAWarning(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := start(t, Options{})
	if s.Persistent() || !strings.Contains(s.Warning(), "not kept") || s.RedisPID() != 0 {
		t.Errorf("persistent %v, warning %q, pid %d", s.Persistent(), s.Warning(), s.RedisPID())
	}
	if err := dialRedis(t, s.RedisURL()).Set(t.Context(), "a", 1, 0).Err(); err != nil {
		t.Error(err)
	}
	_, err := Start(t.Context(), Options{Redis: RedisServer})
	if !errors.Is(err, ErrNoRedisServer) {
		t.Errorf("%v", err)
	}
	if _, err = Start(t.Context(), Options{Redis: "cloud"}); err == nil || !strings.Contains(err.Error(), `"cloud"`) {
		t.Errorf("%v", err)
	}
}

func TestTemporaryDirectoryIsRemovedAtTheEndAndAfterAFailure(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s := start(t, Options{Redis: RedisMemory})
	if s.Persistent() {
		t.Error("a temporary directory must not be reported as persistent")
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Start(t.Context(), Options{Redis: "cloud"}); err == nil {
		t.Error("no error")
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("not removed: %v, %v", left, err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	needServer(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed my mind"))
	if s, err := Start(ctx, Options{}); err == nil || !strings.Contains(err.Error(), "changed my mind") {
		if s != nil {
			_ = s.Stop()
		}
		t.Errorf("%v", err)
	}
}

func TestStartingAndStoppingManyTimesLeavesNothing(t *testing.T) {
	for range 5 {
		s, err := Start(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// Redis is killed and restarted at its port with its data, and the stack does not end.
func TestRedisIsRestartedWithItsData(t *testing.T) {
	if !RedisInstalled() {
		t.Skip("no Redis server is installed")
	}
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts, err := redis.ParseURL(s.RedisURL())
	if err != nil {
		t.Fatal(err)
	}
	rdb, pid := redis.NewClient(opts), s.RedisPID()
	defer func() { _ = rdb.Close() }()
	if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartRedis(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := rdb.Get(t.Context(), "k").Result(); got != "v" || err != nil || s.RedisPID() == pid {
		t.Errorf("%q, %v, process %d after %d", got, err, s.RedisPID(), pid)
	}
	select {
	case <-s.Done():
		t.Error("the restart has ended the stack")
	default:
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	<-s.Done()
}
