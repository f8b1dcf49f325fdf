package stack

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlrun/pawl/internal/transport"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// memberSettings is the environment variable that makes a test binary run as a member of a fleet with the settings it
// contains.
const memberSettings = "PAWL_TEST_MEMBER"

// OneThread is the environment of processes of which several share few cores. With threads for all cores in each process, a
// quarter of the time would be spent on waking up threads.
const OneThread = "GOMAXPROCS=1"

// Member is an orchestrator or a worker.
type Member interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// Main is the TestMain of a package whose tests start members of fleets. In the process of a member it calls serve with the
// member's settings.
func Main[S any](m *testing.M, serve func(S) error) {
	if asMember(serve) {
		return
	}
	goleak.VerifyTestMain(m)
}

// StartMember starts a member of a fleet: the binary of the test, whose TestMain calls Main.
func StartMember(t testing.TB, name string, settings any) *Process {
	t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := NewProcess(t, name, path, nil, []string{memberSettings + "=" + string(text), OneThread})
	p.Start()
	return p
}

// asMember calls serve in a process that StartMember has started. In any other process it returns false.
func asMember[S any](serve func(S) error) bool {
	text := os.Getenv(memberSettings)
	if text == "" {
		return false
	}
	var s S
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = serve(s)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	return true
}

// Serve runs a member until SIGTERM.
func Serve(natsURL string, o *redis.Options, member func(*nats.Conn, redis.UniversalClient) (Member, error)) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := transport.Dial(natsURL, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { slog.Warn("NATS", "error", err) }))
	if err != nil {
		return err
	}
	defer nc.Close()
	rdb := redis.NewClient(o)
	defer func() { _ = rdb.Close() }()
	m, err := member(nc, rdb)
	if err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	slog.Info("started")
	<-ctx.Done()
	drain, end := context.WithTimeout(context.Background(), stopWithin/2)
	defer end()
	return m.Stop(drain)
}

// Counting wraps a member. When its process receives SIGUSR1, it passes the values of its counters to report, keyed by name
// and labels, separated by commas.
func Counting(m Member, reg prometheus.Gatherer, report func(counts map[string]float64) error) Member {
	return &counting{Member: m, reg: reg, report: report}
}

type counting struct {
	Member
	reg    prometheus.Gatherer
	report func(map[string]float64) error
	quit   chan struct{}
	done   chan struct{}
}

func (c *counting) Start(ctx context.Context) error {
	if err := c.Member.Start(ctx); err != nil {
		return err
	}
	requested := make(chan os.Signal, 1)
	signal.Notify(requested, syscall.SIGUSR1)
	c.quit, c.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.done)
		defer signal.Stop(requested)
		for {
			select {
			case <-requested:
				if err := c.count(); err != nil {
					slog.Error("counts", "error", err)
				}
			case <-c.quit:
				return
			}
		}
	}()
	return nil
}

func (c *counting) Stop(ctx context.Context) error {
	close(c.quit)
	<-c.done
	return c.Member.Stop(ctx)
}

func (c *counting) count() error {
	families, err := c.reg.Gather()
	if err != nil {
		return err
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				if l.GetName() != "namespace" {
					key = append(key, l.GetValue())
				}
			}
			counts[strings.Join(key, ",")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return c.report(counts)
}

// SetParallel sets the number of tests that run in parallel, unless -parallel is given. It may exceed the number of cores if
// tests mostly wait.
func SetParallel(tests int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // the flag exists, and the value is valid
	}
}
