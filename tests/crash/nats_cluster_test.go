package crash

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/stack"
)

// Streams have three replicas. The server that leads INPUTS is killed, and later a follower, while clients send requests. No
// request fails, and everything that was accepted takes effect.
func TestNATSClusterServerKilledFailsNoClientCall(t *testing.T) {
	t.Parallel()
	c := stack.StartNATSCluster(t, bin)
	a := newHarness(t, servers{nats: c.Nodes[0], redis: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")},
		"PAWL_NATS="+c.URL(), "PAWL_REPLICAS=3", "FLEET_OWNER_TTL=5s", "PAWL_RECONCILE_INTERVAL=10s", "PAWL_LEASE_TTL=5s")
	a.fleets()
	nc := c.Client()
	a.Join(nc, client.Options{RepeatInterval: time.Second})
	a.started()
	inputs := "PAWL-" + a.Namespace + "-INPUTS"
	leader, _ := c.Leader(nc, inputs, nil, 3)
	a.begin(6)

	leader.Kill()
	killed := time.Now()
	a.orchestrator("orchestrator-3")
	a.worker("worker-3")
	a.begin(3) // during the election
	t.Logf("three instances were accepted %v after the leader was killed", since(killed))
	c.Leader(nc, inputs, leader, 2)
	elected := time.Now()
	a.begin(3)
	a.end()
	t.Logf("all had ended %v after the election", since(elected))
	a.started()
	a.waited()

	leader.Start()
	_, follower := c.Leader(nc, inputs, nil, 3)
	c.InSync(nc, "PAWL-"+a.Namespace+"-TASKS")
	a.begin(3)
	follower.Kill()
	killed = time.Now()
	a.begin(6)
	a.end()
	t.Logf("all had ended %v after a follower was killed", since(killed))
}

// started waits until every process of the fleets is ready.
func (a *harness) started() {
	a.t.Helper()
	poll.Until(a.t, within, "the fleets have started", func() bool {
		for _, p := range a.Processes {
			if !p.Started() {
				return false
			}
		}
		return true
	})
}
