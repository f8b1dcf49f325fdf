// Package hostile publishes what no client of Pawl would, to fleets of Pawl's own programs: processes of cmd/orchestrator and
// cmd/worker on a real nats-server and redis-server. Whatever is published, no process ends or grows beyond a bound, other
// instances are served, and nothing takes effect that the store has not confirmed.
package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/tests/stack"
)

var programs string //nolint:gochecknoglobals // the directory of the binaries, made once in TestMain

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pawl-hostile-")
	if err == nil { // without the race detector, whose memory is not Pawl's
		programs = dir
		build := exec.Command("go", "build", "-o", dir, "./cmd/orchestrator", "./cmd/worker", "./cmd/pawl", "./tests/stack/natsd")
		build.Dir, build.Stderr = filepath.Join("..", ".."), os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

const (
	namespace  = "hostile"
	partitions = 8
	within     = 30 * time.Second
)

// harness is a fleet with its servers.
type harness struct {
	t      *testing.T
	nats   *stack.NATS
	redis  *redistest.Server
	fleet  []*stack.Process
	client *client.Client
	store  *store.Store
}

func newHarness(t *testing.T, orchestrators, workers int) *harness {
	t.Helper()
	h := &harness{t: t, nats: stack.StartNATS(t, stack.Binaries{NATS: filepath.Join(programs, "natsd")}), redis: redistest.Start(t)}
	env := []string{
		"PAWL_NATS=" + h.nats.URL(), "PAWL_REDIS=redis://" + h.redis.Addr, "PAWL_NAMESPACE=" + namespace, "PAWL_PARTITIONS=" + strconv.Itoa(partitions),
		"PAWL_EXAMPLES=true",
	}
	for i := range orchestrators {
		h.start(fmt.Sprint("orchestrator-", i+1), "orchestrator", env)
	}
	for i := range workers {
		h.start(fmt.Sprint("worker-", i+1), "worker", env)
	}
	nc := h.nats.Client()
	poll.Until(t, within, "the namespace exists", func() bool {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		c, err := client.New(ctx, nc, client.Options{Namespace: namespace})
		if err != nil {
			return false
		}
		h.client = c
		t.Cleanup(c.Close)
		return true
	})
	run := redisx.NewRunner(h.redis.Client(t))
	t.Cleanup(run.Close)
	h.store = store.New(run, redisx.NewSpace(namespace))
	return h
}

func (h *harness) start(name, program string, env []string) {
	p := stack.NewProcess(h.t, name, filepath.Join(programs, program), nil, env)
	p.Start()
	h.fleet = append(h.fleet, p)
}

// history reads the events of an instance's first execution.
func (h *harness) history(instance string) []history.Event {
	h.t.Helper()
	events, err := h.store.History(h.t.Context(), queue.PartitionOf(instance, partitions), instance, 1)
	if err != nil {
		h.t.Fatal(err)
	}
	return events
}

// whole fails the test if a process has ended, has had more memory than the bound, or has logged more than the bound; then it
// stops them in order, and runs the invariant checker.
func (h *harness) whole(maxMemory, maxLog int) {
	h.t.Helper()
	for _, p := range h.fleet {
		select {
		case <-p.Ended():
			h.t.Errorf("a process has ended: %.4000s", p.Log())
			continue
		default:
		}
		memory, log := peakMemory(h.t, p), len(p.Log())
		h.t.Logf("%s: peak of memory %d MiB, log %d KiB", filepath.Base(p.Name()), memory>>20, log>>10)
		if memory > maxMemory {
			h.t.Errorf("%s has had %d MiB of memory, want at most %d", p.Name(), memory>>20, maxMemory>>20)
		}
		if log > maxLog {
			h.t.Errorf("%s has logged %d bytes, want at most %d", p.Name(), log, maxLog)
		}
	}
	ctx, stop := context.WithTimeout(h.t.Context(), within)
	defer stop()
	seen, err := h.store.Check(ctx, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range seen.Findings {
		h.t.Errorf("invariant broken: %s", f)
	}
	for _, p := range h.fleet {
		p.Stop()
	}
}

// peakMemory is the largest resident set that the process has had, in bytes.
func peakMemory(t *testing.T, p *stack.Process) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// capture collects the messages of a namespace, for some of each kind.
func capture(t *testing.T, nc *nats.Conn) (taken func() map[string][]*nats.Msg) {
	t.Helper()
	sub, err := nc.SubscribeSync("pawl." + namespace + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() map[string][]*nats.Msg {
		all := map[string][]*nats.Msg{}
		for {
			m, err := sub.NextMsg(100 * time.Millisecond)
			if err != nil {
				break
			}
			kind := strings.Split(m.Subject, ".")[2]
			all[kind] = append(all[kind], m)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
		return all
	}
}

func (h *harness) await(instance string) {
	h.t.Helper()
	poll.Until(h.t, within, instance+" is there", func() bool {
		rec, err := h.store.Record(h.t.Context(), queue.PartitionOf(instance, partitions), instance)
		return err == nil && rec != nil
	})
}
