// Package hostile publishes messages that no client of Pawl would publish, to fleets of Pawl's own programs: processes of
// cmd/orchestrator and cmd/worker on a real nats-server and redis-server, under a memory limit. Whatever is published, no
// process ends or exceeds its memory, other instances proceed, and no unconfirmed write takes effect.
package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/stack"
)

// programs is the directory of the binaries, which are built once; empty: not built.
var programs string //nolint:gochecknoglobals // TestMain removes it

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(programs)
		os.Exit(code)
	}))
}

// build builds the binaries without the race detector, which would need additional memory.
func build(t *testing.T) {
	t.Helper()
	if programs != "" {
		return
	}
	dir, err := os.MkdirTemp("", "pawl-hostile-")
	if err != nil {
		t.Fatal(err)
	}
	programs = dir
	if err := stack.GoBuild("-o", dir, "./cmd/orchestrator", "./cmd/worker", "./tests/stack/natsd"); err != nil {
		t.Fatal(err)
	}
}

const (
	namespace  = "hostile"
	partitions = 8
	within     = 60 * time.Second

	maxMemory = 512 << 20 // bytes of address space per process; the system refuses more, which ends the process
	maxLog    = 1 << 20   // bytes of log per process
)

// harness is a fleet with its servers.
type harness struct {
	*stack.Fleet
	t    *testing.T
	nats *stack.NATS
}

func newHarness(t *testing.T, orchestrators, workers int) *harness {
	t.Helper()
	build(t)
	server := redistest.Start(t)
	h := &harness{t: t, nats: stack.StartNATS(t, stack.Binaries{NATS: filepath.Join(programs, "natsd")}, stack.SyncInterval)}
	h.Fleet = stack.NewFleet(t, namespace, partitions, server.Client(t),
		"PAWL_NATS="+h.nats.URL(), "PAWL_REDIS=redis://"+server.Addr, "PAWL_NAMESPACE="+namespace, "PAWL_PARTITIONS="+strconv.Itoa(partitions),
		"PAWL_EXAMPLES=true", fmt.Sprint("GOMEMLIMIT=", maxMemory*3/4))
	for i := range orchestrators {
		h.limited(fmt.Sprint("orchestrator-", i+1), "orchestrator")
	}
	for i := range workers {
		h.limited(fmt.Sprint("worker-", i+1), "worker")
	}
	h.Join(h.nats.Client(), client.Options{})
	return h
}

// limited starts a program that cannot use more than maxMemory.
func (h *harness) limited(name, program string) *stack.Process {
	h.t.Helper()
	limit := fmt.Sprintf(`ulimit -d %d && exec "$0"`, maxMemory>>10)
	return h.Process(name, "/bin/sh", []string{"-c", limit, filepath.Join(programs, program)})
}

func start[In, Out any](ctx context.Context, h *harness, o pawl.Orchestration[In, Out], id string, in In) *client.Instance[Out] {
	h.t.Helper()
	run, err := client.Start(ctx, h.Client, o, id, in)
	if err != nil {
		h.t.Fatal(err)
	}
	return run
}

// committed waits until each of the instances has taken a turn.
func (h *harness) committed(instances ...string) {
	h.t.Helper()
	for _, id := range instances {
		poll.Until(h.t, within, id+" has taken a turn", func() bool { return h.Record(id) != nil })
	}
}

// checkBounds fails the test for each process that has ended or has logged too much, stops all of them in order, and runs the
// invariant checker.
func (h *harness) checkBounds() {
	h.t.Helper()
	h.Alive()
	for _, p := range h.Processes {
		memory, log := peakMemory(p), len(p.Log())
		h.t.Logf("%s: peak of memory %d MiB, log %d KiB", filepath.Base(p.Name()), memory>>20, log>>10)
		if log > maxLog {
			h.t.Errorf("%s has logged %d bytes, want at most %d", p.Name(), log, maxLog)
		}
	}
	h.Check()
	for _, p := range h.Processes {
		p.Stop()
	}
}

// peakMemory returns the largest resident set of a process in bytes; zero if it has ended.
func peakMemory(p *stack.Process) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, _ := strconv.Atoi(f[1])
			return kib << 10
		}
	}
	return 0
}

// capture collects the messages of a namespace by the token of the subject that names their kind.
func capture(t *testing.T, nc *nats.Conn) (captured func() map[string][]*nats.Msg) {
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
