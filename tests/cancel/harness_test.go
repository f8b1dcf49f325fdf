// Package cancel tests every way in which the activities of worker processes can be cancelled, and compares both sides: the cause that
// the activity receives, and the history.
package cancel

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/tests/stack"
)

func TestMain(m *testing.M) { stack.Main(m, fleet) }

// within is the timeout of every wait.
const within = 60 * time.Second

// userWithoutHints is a NATS user that may not receive hints, so that its worker detects cancellations by renewals.
const userWithoutHints = "without-hints"

// harness is a namespace with its servers, its processes and a client.
type harness struct {
	*testing.T
	ctx    context.Context
	ns     string
	nats   string
	redis  *redistest.Server
	ledger string
	*stack.Fleet
}

// newHarness starts the servers, two orchestrators and a client. The test starts the workers.
func newHarness(t *testing.T) *harness {
	t.Helper()
	a := &harness{
		T: t, ctx: t.Context(), ns: "cancel", nats: startNATS(t), redis: redistest.Start(t),
		ledger: filepath.Join(t.TempDir(), "ledger"),
	}
	for _, name := range []string{"orchestrator-1", "orchestrator-2"} {
		a.member(settings{Role: "orchestrator", Name: name})
	}
	a.Fleet = stack.NewFleet(t, a.ns, partitions, a.redis.Client(t))
	a.Join(natstest.Dial(t, a.nats), client.Options{By: "ada", RepeatInterval: time.Second})
	return a
}

// startNATS starts a server in this process, on which userWithoutHints receives no hints.
func startNATS(t *testing.T) string {
	t.Helper()
	const others = "others"
	return natstest.Start(t, func(o *server.Options) {
		o.NoAuthUser = others
		o.Users = []*server.User{{Username: others}, {
			Username: userWithoutHints, Password: userWithoutHints,
			Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"pawl.*.hint.>"}}},
		}}
	}).ClientURL()
}

// member starts a process of the fleet, from the test's own binary. Settings that are not set default to those of the harness.
func (a *harness) member(s settings) *stack.Process {
	a.Helper()
	if s.NATS == "" {
		s.NATS = a.nats
	}
	if s.Redis == "" {
		s.Redis = a.redis.Addr
	}
	if s.TTL == 0 {
		s.TTL = time.Minute // so long that renewals do not detect cancellations within seconds
	}
	s.Namespace, s.Ledger = a.ns, a.ledger
	return stack.StartMember(a, s.Name, s)
}

func (a *harness) worker(name string) *stack.Process {
	a.Helper()
	return a.member(settings{Role: "worker", Name: name})
}

// urlWithoutHints returns the URL of NATS for a worker that receives no hints.
func (a *harness) urlWithoutHints() string {
	return strings.Replace(a.nats, "nats://", "nats://"+userWithoutHints+":"+userWithoutHints+"@", 1)
}

func (a *harness) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// lines returns the lines of the ledger about an instance.
func (a *harness) lines(what, instance string) (all []line) {
	a.Helper()
	b, err := os.ReadFile(a.ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.Fatal(err)
	}
	for text := range strings.Lines(string(b)) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.What == what && l.Instance == instance {
			all = append(all, l)
		}
	}
	return all
}

// await waits for n lines, and returns them.
func (a *harness) await(what, instance string, n int) (all []line) {
	a.Helper()
	poll.Until(a, within, instance+": "+what, func() bool {
		all = a.lines(what, instance)
		return len(all) >= n
	})
	return all
}

// counts requests the counters of a worker.
func (a *harness) counts(p *stack.Process, name string) map[string]float64 {
	a.Helper()
	before := len(a.lines("counts", ""))
	p.Signal(syscall.SIGUSR1)
	var all []line
	poll.Until(a, within, name+" reports its counts", func() bool {
		all = a.lines("counts", "")
		return len(all) > before && all[len(all)-1].Worker == name
	})
	return all[len(all)-1].Counts
}

func (a *harness) start(o interface{ Name() string }, id string, in history.Payload, err error) {
	a.Helper()
	a.must(err)
	_, err = a.Client.StartRaw(a.ctx, o.Name(), id, in)
	a.must(err)
}

func (a *harness) send(id string) {
	a.Helper()
	a.must(client.Send(a.ctx, a.Client, Go, id, "now"))
}

func (a *harness) file(name string) string { return filepath.Join(filepath.Dir(a.ledger), name) }

func (a *harness) touch(file string) {
	a.Helper()
	a.must(os.WriteFile(file, nil, 0o600))
}

// history returns an execution's events; nil if it cannot be read yet.
func (a *harness) history(id string, execution uint64) (all []client.Entry) {
	for e, err := range a.Client.History(a.ctx, id, execution) {
		if err != nil {
			return nil
		}
		all = append(all, e)
	}
	return all
}

// cancellations waits for at least n cancellations in an execution, and returns them.
func (a *harness) cancellations(id string, execution uint64, n int) (all []cancellation) {
	a.Helper()
	poll.Until(a, within, id+": cancellations in history", func() bool {
		all = nil
		for _, e := range a.history(id, execution) {
			if c, ok := e.Event.(*history.ActivityCancelRequested); ok {
				all = append(all, cancellation{c, e.Report})
			}
		}
		return len(all) >= n
	})
	return all
}

// cancellation is a recorded cancellation with its report.
type cancellation struct {
	*history.ActivityCancelRequested
	report *lease.Report
}

// reported waits for the report about the first cancellation, and checks how the activity ended.
func (a *harness) reported(id string, execution uint64, how lease.Ending) {
	a.Helper()
	var last *lease.Report
	poll.Until(a, within, id+": a report of how the activity ended", func() bool {
		all := a.cancellations(id, execution, 1)
		last = all[0].report
		return last != nil
	})
	if last.Ending != how {
		a.Errorf("%s: reported %+v, want %s", id, *last, how)
	}
}

// ended waits for the end of an instance, and returns its last event.
func (a *harness) ended(id string) (end history.Event) {
	a.Helper()
	poll.Until(a, within, id+" has ended", func() bool {
		all := a.history(id, 0)
		if len(all) == 0 {
			return false
		}
		end = all[len(all)-1].Event
		return slices.Contains([]history.Kind{history.KindCompleted, history.KindFailed, history.KindCancelled}, end.Kind())
	})
	return end
}

// check runs the invariant checker of production, and checks that no leases are left.
func (a *harness) check() {
	a.Helper()
	if seen := a.Check(); seen.Leases != 0 {
		a.Errorf("%d leases are left although all instances have ended", seen.Leases)
	}
}
