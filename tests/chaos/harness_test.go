//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/chaos/verdict"
	"github.com/pawlrun/pawl/tests/chaos/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// Sizes of the fleets, and settings that make recovery fast enough for many faults per minute.
const (
	orchestrators = 3
	workers       = 4
	clients       = 2
	namespace     = "chaos"
	partitions    = 16 // initial number
	leaseTTL      = 2 * time.Second
	ownerTTL      = 2 * time.Second
	reconcile     = 2 * time.Second

	// Time limits of the verdict. They are far above the times of a healthy fleet on a slow machine, because a verdict must
	// not depend on the machine: instances end within seconds of the last fault, or never.
	settleIdle   = 3 * time.Minute  // without a further result, while clients are waiting
	settleWithin = 15 * time.Minute // from the end of the last fault until every instance has ended
	readWithin   = 15 * time.Minute // to read everything that is stored
	stopWithin   = 2 * time.Minute  // from SIGTERM to the end of a member, whose drain is 10 s
)

// member is a process of a fleet with its own links to the servers.
type member struct {
	*stack.Process
	name  string
	nats  *netfault.Proxy // nil: it connects to the servers directly
	redis *netfault.Proxy

	clock   *clock       // nil: the clock of the machine
	release atomic.Int32 // release of the orchestration code; 0: there is only one
	before  atomic.Bool  // runs the program of an earlier commit
}

// harness is the fleets and the servers of a campaign.
type harness struct {
	t          *testing.T
	rng        *rand.Rand
	dir        string
	binary     string  // program of tests/fleet
	cli        string  // program of cmd/pawl
	previous   program // program of an earlier commit
	servers    *servers
	partitions int       // current number of partitions
	firstKey   string    // first key of payloads
	rotated    time.Time // time at which the current key was set
	members    []*member
	clients    []*member

	mu         sync.Mutex
	busy       map[string]bool // parts that a fault is acting on
	faults     map[string]int
	violations []string
	events     *os.File // log of the faults, to explain a failed campaign
}

func build(t *testing.T, dir, topology string) (bin stack.Binaries, fleet, cli string) {
	t.Helper()
	bin = stack.Binaries{NATS: filepath.Join(dir, "natsd")}
	fleet, cli = filepath.Join(dir, "fleet"), filepath.Join(dir, "pawl")
	var flags []string
	if topology == clocks {
		flags = steppedTime(t, dir)
	}
	for _, args := range [][]string{
		{"-o", bin.NATS, "./tests/stack/natsd"}, append(flags, "-o", fleet, "./tests/fleet"), {"-o", cli, "./cmd/pawl"},
	} {
		if err := stack.GoBuild(args...); err != nil {
			t.Fatal(err)
		}
	}
	return bin, fleet, cli
}

func newHarness(t *testing.T, seed uint64, fleet, cli string, before program, s *servers) *harness {
	t.Helper()
	h := &harness{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), binary: fleet, cli: cli, previous: before, servers: s,
		partitions: partitions, firstKey: key("first"),
		busy: map[string]bool{}, faults: map[string]int{},
	}
	h.setKeys(h.firstKey)
	var err error
	if h.events, err = os.Create(filepath.Join(h.dir, "faults.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.events.Close() })
	for i := range orchestrators {
		h.members = append(h.members, h.member("orchestrator", i+1))
	}
	for i := range workers {
		h.members = append(h.members, h.member("worker", i+1))
	}
	for i := range clients {
		c := h.member("client", i+1, "FLEET_SEED="+strconv.FormatUint(seed*10+uint64(i), 10))
		h.clients = append(h.clients, c)
		h.members = append(h.members, c)
	}
	for _, m := range h.members {
		m.Start()
	}
	return h
}

func (h *harness) ledger() string           { return filepath.Join(h.dir, "ledger") }
func (h *harness) calls(name string) string { return filepath.Join(h.dir, name+".calls") }

func (h *harness) member(role string, n int, env ...string) *member {
	h.t.Helper()
	m := &member{name: role + "-" + strconv.Itoa(n)}
	natsURL, redisURL := h.servers.natsURL(), h.servers.redisURL()
	if a := h.servers.natsProxied(); a != "" {
		m.nats = h.proxy(a)
		natsURL = scheme(h.servers.topology, "nats", "tls") + m.nats.Addr()
	}
	if a := h.servers.redisProxied(); a != "" {
		m.redis = h.proxy(a)
		redisURL = scheme(h.servers.topology, "redis", "rediss") + m.redis.Addr()
	}
	m.Process = stack.NewProcess(h.t, m.name, h.binary, []string{role}, append([]string{
		"PAWL_NATS=" + natsURL, "PAWL_REDIS=" + redisURL, "PAWL_NAMESPACE=" + namespace, "PAWL_PARTITIONS=" + strconv.Itoa(partitions),
		"PAWL_REPLICAS=" + strconv.Itoa(h.servers.replicas()), "PAWL_RECONCILE_INTERVAL=" + reconcile.String(), "FLEET_CAMPAIGN=true",
		"PAWL_LEASE_TTL=" + leaseTTL.String(), "PAWL_DRAIN=10s", "FLEET_OWNER_TTL=" + ownerTTL.String(),
		"FLEET_LEDGER=" + h.ledger(), "FLEET_CALLS=" + h.calls(m.name), "FLEET_QUIT=" + filepath.Join(h.dir, "quit"), "FLEET_NAME=c" + strconv.Itoa(n), "GOMAXPROCS=2",
		"PAWL_PAYLOAD_KEYS_FILE=" + h.keys(), "PAWL_COMPRESS_PAYLOADS=true", "PAWL_STORE_PAYLOADS=true",
	}, env...))
	if role != "client" && h.servers.topology == clocks {
		m.clock = newClock(h.t)
		m.Setenv("FLEET_CLOCK=" + m.clock.file)
	} else if h.servers.topology == clocks { // observers use the clock of the machine
		m.Setenv("FLEET_CLOCK=" + newClock(h.t).file)
	}
	if role == "orchestrator" && h.servers.topology == upgrade {
		m.release.Store(1)
		m.Setenv("FLEET_RELEASE=1")
	}
	return m
}

// scheme returns the URL scheme for members.
func scheme(topology, plain, encrypted string) string {
	if topology == encrypt {
		return encrypted + "://"
	}
	return plain + "://"
}

// upgrade restarts an orchestrator with the second release of the orchestration code.
func (h *harness) upgrade(m *member) {
	m.release.Store(2)
	m.Setenv("FLEET_RELEASE=2")
	h.restart(m)
}

func (h *harness) proxy(server string) *netfault.Proxy {
	h.t.Helper()
	p, err := netfault.Listen(server)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(p.Close)
	return p
}

// recordf logs an action and its time.
func (h *harness) recordf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = fmt.Fprintf(h.events, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

func (h *harness) violationf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violations = append(h.violations, fmt.Sprintf(format, args...))
}

// restart stops a member with SIGTERM and starts it again. The verdict requires that it ends.
func (h *harness) restart(m *member) {
	terminate(h, m)
	m.Start()
}

// terminate stops a member with SIGTERM.
func terminate(h *harness, m *member) {
	m.Signal(syscall.SIGTERM)
	late := time.NewTimer(stopWithin)
	defer late.Stop()
	select {
	case <-m.Ended():
	case <-late.C:
		h.violationf("%s has not ended %v after SIGTERM", m.name, stopWithin)
		m.Kill()
	}
}

// settle stops the clients from starting instances, and waits until they have all their results.
func (h *harness) settle() (took time.Duration) {
	h.t.Helper()
	begun := time.Now()
	for _, m := range h.members {
		select {
		case <-m.Ended():
			h.violationf("%s has ended unexpectedly", m.name)
			m.Start()
		default:
		}
	}
	if err := os.WriteFile(filepath.Join(h.dir, "quit"), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
	for _, m := range h.members {
		if m.release.Load() == 1 { // the first release cannot continue what the second has decided
			h.upgrade(m)
		}
		if m.before.Load() {
			h.exchange(m)
		}
	}
	for _, c := range h.clients {
		if !h.finished(c, begun) {
			h.violationf("%s still waits for results %v after the last fault", c.name, time.Since(begun).Round(time.Second))
			return time.Since(begun)
		}
	}
	return time.Since(begun)
}

// finished waits while a client receives further results. It reports whether the client has all results.
func (h *harness) finished(c *member, begun time.Time) bool {
	h.t.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	n, latest := 0, time.Now()
	for {
		select {
		case <-c.Ended():
			return true
		case <-tick.C:
		}
		if now := h.results(c); now > n {
			n, latest = now, time.Now()
		}
		if time.Since(latest) > settleIdle || time.Since(begun) > settleWithin {
			return false
		}
	}
}

// results returns the number of results that a client has.
func (h *harness) results(c *member) int {
	h.t.Helper()
	calls, err := os.ReadFile(h.calls(c.name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	return bytes.Count(calls, []byte(`"call":"`+work.Result+`"`))
}

// progress waits until every client has a further result.
func (h *harness) progress() {
	h.t.Helper()
	for _, c := range h.clients {
		before := h.results(c)
		poll.Until(h.t, settleIdle, "one more result of "+c.name, func() bool { return h.results(c) > before })
	}
}

// verdict reads everything that the processes have recorded, and decides.
func (h *harness) verdict(ctx context.Context) (*verdict.Verdict, error) {
	e := verdict.Evidence{Rollback: h.servers.rollback(), Rotated: h.rotated}
	for _, c := range h.clients {
		calls, err := work.ReadCalls(h.calls(c.name))
		if err != nil {
			return nil, err
		}
		e.Calls = append(e.Calls, calls...)
	}
	var err error
	if e.Runs, err = work.Ledger(h.ledger()).Read(); err != nil {
		return nil, err
	}
	nc, err := nats.Connect(h.servers.natsURL(), nats.Timeout(time.Minute))
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	codec, err := h.codec()
	if err != nil {
		return nil, err
	}
	c, err := retryRead(ctx, func() (*client.Client, error) {
		return client.New(ctx, nc, client.Options{Namespace: namespace, OwnerTimeout: 20 * time.Second, Codec: codec})
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ended := map[string]verdict.Instance{} // an end is read once, because it is final
	e.Find = func(id string) (verdict.Instance, error) {
		if inst, ok := ended[id]; ok {
			return inst, nil
		}
		inst, err := retryRead(ctx, func() (verdict.Instance, error) { return find(ctx, c, id) })
		if err == nil && inst.Ended {
			ended[id] = inst
		}
		return inst, err
	}
	h.settled(ctx, c, e)
	v, err := verdict.Of(e)
	if err == nil {
		err = h.checkCounts(ctx, c, e)
	}
	return v, err
}

// checkBallots checks the order of the operations on ballots, unless there was a rollback.
func (h *harness) checkBallots() (checked, undecided int) {
	h.t.Helper()
	if h.servers.rollback() {
		return 0, 0
	}
	logs, err := filepath.Glob(filepath.Join(h.dir, "*.ops"))
	if err != nil {
		h.t.Fatal(err)
	}
	var ops []work.Op
	for _, path := range logs {
		some, err := work.ReadOps(path)
		if err != nil {
			h.t.Fatal(err)
		}
		ops = append(ops, some...)
	}
	findings, checked, undecided := verdict.Linear(ops, 10*time.Second)
	h.violations = append(h.violations, findings...)
	return checked, undecided
}

// settled waits for the instances that have no waiting client. After a rollback these include flocks: a client that already has
// the result starts no further batch, and birds that were started again as new instances have none.
func (h *harness) settled(ctx context.Context, c *client.Client, e verdict.Evidence) {
	h.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(settleIdle)
	defer late.Stop()
	for _, call := range e.Calls {
		if call.Call != work.Result {
			continue
		}
		id, flock := call.ID, strings.HasPrefix(call.ID, "flock-") && e.Rollback
		if rest, ok := strings.CutPrefix(id, "pair-"); ok && call.Outcome == "sent" {
			id = "listener-" + rest
		} else if !flock {
			continue
		}
		for n := extraBatches; ; n++ {
			if i, err := e.Find(id); err == nil && i.Ended {
				break
			}
			if flock {
				if err := work.Release(ctx, c, id, n); err != nil {
					h.t.Logf("release %s: %v", id, err)
				}
			}
			select {
			case <-tick.C:
			case <-late.C: // the verdict reports it
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// extraBatches is the number of the first batch that is not started by a client.
const extraBatches = 1 << 20

// retryRead repeats a read that fails: on an overloaded machine, owners temporarily lose their partitions even without a
// fault.
func retryRead[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for {
		v, err := read()
		if err == nil || ctx.Err() != nil {
			return v, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func find(ctx context.Context, c *client.Client, id string) (verdict.Instance, error) {
	d, err := c.Describe(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		return verdict.Instance{}, nil
	} else if err != nil {
		return verdict.Instance{}, err
	}
	inst := verdict.Instance{Exists: true, Status: fmt.Sprint(d.Status)}
	at := map[uint64]int{}
	cancelling := map[uint64]bool{}
	completed := func(id uint64, claim uint32, ok bool) {
		a := &inst.Activities[at[id]]
		a.Completions++
		a.Claim, a.Succeeded = claim, ok
		if cancelling[id] {
			a.AfterCancelling++
		}
	}
	for entry, err := range c.History(ctx, id, 0) {
		if errors.Is(err, client.ErrNotFound) { // has not begun
			break
		} else if err != nil {
			return inst, err
		}
		switch e := entry.Event.(type) {
		case *history.ActivityScheduled:
			at[e.ID] = len(inst.Activities)
			inst.Activities = append(inst.Activities, verdict.Activity{ID: e.ID, Name: e.Name, Key: e.CallKey()})
		case *history.ActivityCancelRequested:
			cancelling[e.Scheduled] = true
		case *history.ActivityCompleted:
			completed(e.Scheduled, e.Claims, true)
		case *history.ActivityFailed:
			completed(e.Scheduled, e.Claims, false)
		case *history.Completed, *history.Failed, *history.Cancelled:
			inst.Ended = true
		}
	}
	if inst.Ended {
		result, err := work.KindOf(id).Result(ctx, c, id)
		if ctx.Err() != nil {
			return inst, ctx.Err()
		}
		if errors.Is(err, client.ErrNoOwner) { // not the outcome of the instance
			return inst, err
		}
		inst.Outcome = work.Outcome(result, err)
		if d, err = c.Describe(ctx, id); err != nil { // reading the result of kind "mend" may retry the instance
			return inst, err
		}
		inst.Status = fmt.Sprint(d.Status)
	}
	return inst, nil
}

// show logs the output of the command line for stalled instances, and for an instance with findings.
func (h *harness) show(ctx context.Context, findings []string) {
	h.t.Helper()
	commands := [][]string{{"list", "--stalled"}}
	for _, f := range findings {
		_, rest, _ := strings.Cut(f, ": ")
		if id, _, _ := strings.Cut(rest, ":"); !strings.ContainsRune(id, ' ') { // not the name of a member or a server
			commands = append(commands, []string{"get", id}, []string{"history", id})
			break
		}
	}
	for _, args := range commands {
		out, err := exec.CommandContext(ctx, h.cli, append(args, "--nats", h.servers.natsURL(), "--namespace", namespace, "--payload-keys", h.keys())...).CombinedOutput()
		h.t.Logf("pawl %s (%v):\n%s", strings.Join(args, " "), err, out)
	}
}

// stalled returns an error for instances that are listed as stalled. Votes for a ballot that no client has started wait for
// its start.
func (h *harness) stalled(ctx context.Context) error {
	run, err := h.redis()
	if err != nil {
		return err
	}
	defer run.Close()
	r := store.NewReader(run, redisx.NewSpace(namespace))
	for part := range h.partitions {
		ids, err := r.StalledIDs(ctx, part)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !strings.HasPrefix(id, "ballot-") {
				h.violationf("%s is listed as stalled although all have ended", id)
			}
		}
	}
	return nil
}

// checkInvariants runs the invariant checker of production.
func (h *harness) checkInvariants(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, h.cli, "check", "--json", "--objects", "--redis", h.servers.redisURL(), "--nats", h.servers.natsURL(), "--namespace", namespace)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var checked struct {
		Findings      []struct{ Instance, Rule string }
		LimitFindings []json.RawMessage `json:"limit_findings"`
		Objects       int
		LostObjects   []string `json:"lost_objects"`
		Stalled       int
		Leases        int
	}
	if jerr := json.Unmarshal(out, &checked); jerr != nil {
		return fmt.Errorf("pawl check: %w: %s%s", errors.Join(err, jerr), out, stderr.String())
	}
	for _, f := range checked.Findings {
		h.violationf("pawl check: %s: %s", f.Instance, f.Rule)
	}
	for _, f := range checked.LimitFindings {
		h.violationf("pawl check: %s", f)
	}
	for _, name := range checked.LostObjects {
		h.violationf("pawl check: object %s is lost", name)
	}
	if checked.Objects == 0 {
		h.violationf("no history refers to a large payload: the campaign does not store any")
	}
	if checked.Leases > 0 {
		h.violationf("pawl check: %d leases exist although all instances have ended", checked.Leases)
	}
	if checked.Stalled > 0 {
		return h.stalled(ctx)
	}
	return nil
}
