package crash

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

const (
	outageParts = 64
	// steadyFor is the time for which an outage is measured, after everything has failed once.
	steadyFor = 4 * time.Second
	// steadyCPU is the maximum CPU share of a fleet on a busy machine. On an idle machine an orchestrator needs 1 %.
	steadyCPU = 0.1
)

// outageCase is an outage, and the log lines that each process writes about it.
type outageCase struct {
	name         string
	env          []string // on a slow machine, ownerships and leases must not expire unless the outage causes it
	begin        func(a *harness, nats, redis *netfault.Proxy)
	end          func(a *harness, nats, redis *netfault.Proxy)
	orchestrator []string
	worker       []string
}

func TestOutageIsLoggedOnceWhateverTheNumberOfPartitions(t *testing.T) {
	var (
		nats         = []string{"nats unavailable"}
		redisMissing = []string{"redis unavailable", "partitions lost, not renewed in time"}
		redisLost    = []string{"redis unavailable", "lease lost: not renewed in time"}
		heal         = func(_ *harness, nats, redis *netfault.Proxy) { nats.Heal(); redis.Heal() }
	)
	for _, c := range []outageCase{
		{"NATS in a black hole", []string{"FLEET_OWNER_TTL=30s", "PAWL_LEASE_TTL=30s"}, func(_ *harness, nats, _ *netfault.Proxy) { nats.BlackHole() }, heal, nats, nats},
		{"Redis killed", []string{"FLEET_OWNER_TTL=5s", "PAWL_LEASE_TTL=3s"}, func(a *harness, _, _ *netfault.Proxy) { a.redis.Kill() }, func(a *harness, _, _ *netfault.Proxy) { a.redis.Restart(a.t) }, redisMissing, redisLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func (c outageCase) run(t *testing.T) {
	s := startDurableServers(t)
	nats, redis := proxy(t, s.nats.Addr), proxy(t, s.redis.Addr)
	a := newHarnessOf(t, s, outageParts, append(c.env, "PAWL_NATS=nats://"+nats.Addr(), "PAWL_REDIS=redis://"+redis.Addr(), "PAWL_RECONCILE_INTERVAL=10s")...)
	w, o := a.worker("worker"), a.orchestrator("orchestrator")
	a.join()
	a.started()
	for n := range outageParts {
		_, err := client.Start(a.ctx, a.Client, work.CallHanging, fmt.Sprint("hanging-", n), pawl.None{})
		a.must(err)
	}
	poll.Until(t, within, "the activities run", func() bool { return len(a.lines("hanging")) == outageParts })

	before := [2]int{len(lines(w)), len(lines(o))}
	cut := time.Now()
	c.begin(a, nats, redis)
	poll.Until(t, within, "all operations have failed", func() bool {
		return len(lines(w)) >= before[0]+len(c.worker) && len(lines(o)) >= before[1]+len(c.orchestrator)
	})
	began, cpu := time.Now(), [2]time.Duration{w.CPU(), o.CPU()}
	steady := time.NewTimer(steadyFor)
	<-steady.C
	took := time.Since(began)
	for i, p := range []*stack.Process{w, o} {
		role, want := [2]string{"worker", "orchestrator"}[i], [2][]string{c.worker, c.orchestrator}[i]
		share := float64(p.CPU()-cpu[i]) / float64(took)
		t.Logf("the %s used %.1f %% of a processor", role, 100*share)
		if share > steadyCPU {
			t.Errorf("CPU share above %.0f %%", 100*steadyCPU)
		}
		got := lines(p)[before[i]:]
		all, most := len(got), int(time.Since(cut)/time.Minute) // on a slow machine the outage may last for minutes, with one line per minute
		got = slices.DeleteFunc(got, func(line string) bool { return strings.HasSuffix(line, " still unavailable") })
		if again := all - len(got); again > most {
			t.Errorf("the %s logged the continuing outage %d times in %v", role, again, time.Since(cut))
		}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("the %s logged %q, want %q", role, got, want)
		}
	}
	c.end(a, nats, redis)
	c.recovers(a, [2]*stack.Process{w, o}, before)
}

// recovers checks that everything continues after the outage, and that its end causes few log lines as well.
func (c outageCase) recovers(a *harness, fleet [2]*stack.Process, before [2]int) {
	a.t.Helper()
	for n := range outageParts { // an activity that lost its lease is claimed again, and ends on its own
		a.must(a.Client.Cancel(a.ctx, fmt.Sprint("hanging-", n), "the outage is over"))
	}
	for n := range outageParts {
		a.ended(fmt.Sprint("hanging-", n))
	}
	a.begin(4)
	a.end()
	for i, p := range fleet {
		poll.Until(a.t, within, "the end of the outage is logged", func() bool { return strings.Contains(p.Log(), "available again") })
		times := map[string]int{}
		for _, msg := range lines(p)[before[i]:] {
			times[msg]++
		}
		for msg, n := range times {
			if n > 10 { // as many as name different instances
				a.t.Errorf("%q was logged %d times", msg, n)
			}
		}
	}
}

func proxy(t *testing.T, server string) *netfault.Proxy {
	t.Helper()
	p, err := netfault.Listen(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

var logMessage = regexp.MustCompile(`^time=\S+ level=\S+ msg=(?:"([^"]*)"|(\S+))`)

// lines returns the message of each log line of a process; other lines are returned whole.
func lines(p *stack.Process) (all []string) {
	for line := range strings.Lines(p.Log()) {
		msg := strings.TrimSpace(line)
		if m := logMessage.FindStringSubmatch(line); m != nil {
			msg = m[1] + m[2]
		}
		all = append(all, msg)
	}
	return all
}
