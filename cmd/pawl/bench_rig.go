package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/embedded"
)

// rig is NATS, Redis, an orchestrator and a worker, each a process of its own.
type rig struct {
	dir      string
	natsAddr string
	redis    *embedded.Redis
	children []*process // in the order of their start
	procs    int        // GOMAXPROCS of this process before
}

// members are the programs of a rig: hidden commands, with what they are told besides where
// the servers are.
type members struct {
	nats                 string
	orchestrator, worker []string
	workerUser           string // of NATS; empty: as everybody
}

func examplesMembers() members {
	return members{
		nats:         "serve-nats",
		orchestrator: []string{"serve-orchestrator", "--examples"},
		worker:       []string{"serve-worker", "--examples", "--concurrency", "256"},
	}
}

// startRig starts it. This process, the client, keeps to its share of the cores like the others.
func startRig(ctx context.Context, log *slog.Logger, childLog io.Writer, m members) (_ *rig, err error) {
	r := &rig{procs: runtime.GOMAXPROCS(0)}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(share())
	}
	if r.dir, err = os.MkdirTemp("", "pawl-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	r.redis, err = embedded.StartRedis(ctx, embedded.RedisOptions{Dir: filepath.Join(r.dir, "redis"), Kind: embedded.RedisServer, Logger: log})
	if err != nil {
		return nil, err
	}
	if err := r.startNATS(ctx, childLog, m.nats); err != nil {
		return nil, err
	}
	if err := r.startMember("orchestrator", r.natsURL(), childLog, m.orchestrator); err != nil {
		return nil, err
	}
	url := r.natsURL()
	if m.workerUser != "" {
		url = "nats://" + m.workerUser + ":" + m.workerUser + "@" + r.natsAddr
	}
	return r, r.startMember("worker", url, childLog, m.worker)
}

func (r *rig) startMember(name, natsURL string, childLog io.Writer, args []string) error {
	p, err := spawn(name, childLog, append(args, "--nats", natsURL, "--redis", r.redis.URL(), "--drain", "5s", "--log-level", "warn")...)
	if err != nil {
		return err
	}
	r.children = append(r.children, p)
	return nil
}

// startNATS starts it at a port that is free now, and waits until it listens there.
func (r *rig) startNATS(ctx context.Context, childLog io.Writer, command string) error {
	addrs, err := freeAddrs(ctx, 1)
	if err != nil {
		return err
	}
	r.natsAddr = addrs[0]
	p, err := spawn("nats", childLog, command, "--dir", filepath.Join(r.dir, "nats"), "--port", portOf(r.natsAddr))
	if err != nil {
		return err
	}
	r.children = append(r.children, p)
	return waitListening(ctx, r.natsAddr, p)
}

func (r *rig) natsURL() string { return "nats://" + r.natsAddr }

// stop ends the fleets before the servers, and removes the files.
func (r *rig) stop() error {
	runtime.GOMAXPROCS(r.procs)
	var errs []error
	if len(r.children) > 1 {
		errs = append(errs, stopAll(r.children[1:]))
	}
	if len(r.children) > 0 {
		errs = append(errs, r.children[0].stop())
	}
	if r.redis != nil {
		errs = append(errs, r.redis.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// cpu gives the processor time that each process has used. It is empty for a fleet that
// was not started here, and where the system does not tell.
func (r *rig) cpu() map[string]time.Duration {
	if r == nil {
		return nil
	}
	pids := map[string]int{"client": os.Getpid(), "redis": r.redis.PID()}
	for _, p := range r.children {
		pids[p.name] = p.pid()
	}
	used := make(map[string]time.Duration, len(pids))
	for name, pid := range pids {
		if t, ok := cpuTime(pid); ok {
			used[name] = t
		}
	}
	return used
}

// cpuTime reads the user and system time of a process from Linux' /proc, in ticks of 10 ms.
func cpuTime(pid int) (time.Duration, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name, in parentheses, may hold anything; the fields after it are numbers.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	user, errU := strconv.ParseInt(fields[11], 10, 64)
	system, errS := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errU == nil && errS == nil
}
