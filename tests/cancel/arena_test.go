// Package cancel lets activities be cancelled in every way that there is, in worker
// processes of their own, and looks at both sides: what the activity was told there,
// and what history says.
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
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/tests/stack"
)

func TestMain(m *testing.M) {
	if stack.AsMember(fleet) {
		return
	}
	goleak.VerifyTestMain(m)
}

// within is how long anything may take.
const within = 30 * time.Second

// deafUser is of NATS: it may not hear hints, so its worker finds out by asking.
const deafUser = "deaf"

// arena is one namespace with its servers, its fleets and a client.
type arena struct {
	*testing.T
	ctx    context.Context
	ns     string
	nats   string
	redis  *redistest.Server
	ledger string
	client *client.Client
	store  *store.Store
}

// newArena starts servers, two orchestrators and a client; workers are the test's.
func newArena(t *testing.T) *arena {
	t.Helper()
	a := &arena{
		T: t, ctx: t.Context(), ns: "cancel", nats: startNATS(t), redis: redistest.Start(t),
		ledger: filepath.Join(t.TempDir(), "ledger"),
	}
	for _, name := range []string{"orchestrator-1", "orchestrator-2"} {
		a.member(settings{Role: "orchestrator", Name: name})
	}
	runner := redisx.NewRunner(a.redis.Client(t))
	t.Cleanup(runner.Close)
	a.store = store.New(runner, redisx.NewSpace(a.ns))
	nc := natstest.Dial(t, a.nats)
	poll.Until(t, within, "the namespace exists", func() bool {
		c, err := client.New(a.ctx, nc, client.Options{Namespace: a.ns, By: "ada", Every: time.Second})
		if err != nil {
			return false
		}
		a.client = c
		t.Cleanup(c.Close)
		return true
	})
	return a
}

// startNATS starts a server in this process, where deafUser hears no hints.
func startNATS(t *testing.T) string {
	t.Helper()
	const everybody = "everybody"
	return natstest.Start(t, func(o *server.Options) {
		o.NoAuthUser = everybody
		o.Users = []*server.User{{Username: everybody}, {
			Username: deafUser, Password: deafUser,
			Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"pawl.*.hint.>"}}},
		}}
	}).ClientURL()
}

// member starts a process of a fleet: this test's own binary. What is not set is the arena's.
func (a *arena) member(s settings) *stack.Process {
	a.Helper()
	if s.NATS == "" {
		s.NATS = a.nats
	}
	if s.Redis == "" {
		s.Redis = a.redis.Addr
	}
	if s.TTL == 0 {
		s.TTL = time.Minute // whoever is told within seconds has not found out by a renewal that came round
	}
	s.Namespace, s.Ledger = a.ns, a.ledger
	return stack.StartMember(a, s.Name, s)
}

func (a *arena) worker(name string) *stack.Process {
	a.Helper()
	return a.member(settings{Role: "worker", Name: name})
}

// deaf gives the address of NATS for a worker that is to hear no hints.
func (a *arena) deaf() string {
	return strings.Replace(a.nats, "nats://", "nats://"+deafUser+":"+deafUser+"@", 1)
}

func (a *arena) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// lines gives what was written down.
func (a *arena) lines(what, instance string) (all []line) {
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

// await waits until so many lines are there, and gives them.
func (a *arena) await(what, instance string, n int) (all []line) {
	a.Helper()
	poll.Until(a, within, instance+": "+what, func() bool {
		all = a.lines(what, instance)
		return len(all) >= n
	})
	return all
}

// counts asks a worker what it has counted so far.
func (a *arena) counts(p *stack.Process, name string) map[string]float64 {
	a.Helper()
	before := len(a.lines("counts", ""))
	p.Signal(syscall.SIGUSR1)
	var all []line
	poll.Until(a, within, name+" tells its counts", func() bool {
		all = a.lines("counts", "")
		return len(all) > before && all[len(all)-1].Worker == name
	})
	return all[len(all)-1].Counts
}

func (a *arena) start(o interface{ Name() string }, id string, in history.Payload, err error) {
	a.Helper()
	a.must(err)
	_, err = a.client.StartRaw(a.ctx, o.Name(), id, in)
	a.must(err)
}

func (a *arena) send(id string) {
	a.Helper()
	a.must(client.Send(a.ctx, a.client, Go, id, "now"))
}

func (a *arena) file(name string) string { return filepath.Join(filepath.Dir(a.ledger), name) }

func (a *arena) touch(file string) {
	a.Helper()
	a.must(os.WriteFile(file, nil, 0o600))
}

// history gives an execution's events; nil if it can not be read (yet).
func (a *arena) history(id string, execution uint64) (all []client.Entry) {
	for e, err := range a.client.History(a.ctx, id, execution) {
		if err != nil {
			return nil
		}
		all = append(all, e)
	}
	return all
}

// cancellations gives those of an execution, once there are so many.
func (a *arena) cancellations(id string, execution uint64, n int) (all []cancellation) {
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

// cancellation is what history says of one, and what was reported of it.
type cancellation struct {
	*history.ActivityCancelRequested
	report *client.Report
}

// reported waits until the cancellation of the activity has been reported, and demands how.
func (a *arena) reported(id string, execution uint64, how client.How) {
	a.Helper()
	var last *client.Report
	poll.Until(a, within, id+": it is reported how the activity ended", func() bool {
		all := a.cancellations(id, execution, 1)
		last = all[0].report
		return last != nil
	})
	if last.How != how {
		a.Errorf("%s: reported %+v, want %s", id, *last, how)
	}
}

// ended waits for the end of an instance, and gives it.
func (a *arena) ended(id string) (end history.Event) {
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

// check runs the invariant checker of production, and demands that no lease is left.
func (a *arena) check() {
	a.Helper()
	seen, err := a.store.Check(a.ctx, nil)
	a.must(err)
	for _, f := range seen.Findings {
		a.Errorf("invariant broken: %s", f)
	}
	if seen.Leases != 0 {
		a.Errorf("%d leases are left although everything has ended", seen.Leases)
	}
}
