package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// isolated is an orchestrator whose connection to a server can be cut, and two others that can take its partitions.
type isolated struct {
	*harness
	member string // its name in the fleet
	proxy  *netfault.Proxy
}

// isolate starts three orchestrators with enough partitions that each owns some, and puts a proxy between the third one and
// NATS or Redis.
func isolate(t *testing.T, redisFault bool) isolated {
	t.Helper()
	a := newHarnessOf(t, startServers(t), 32, "FLEET_OWNER_TTL="+ownerTTL.String(), "PAWL_RECONCILE_INTERVAL=10s")
	server, variable := a.nats.Addr, "PAWL_NATS=nats://%s"
	if redisFault {
		server, variable = a.redis.Addr, "PAWL_REDIS=redis://%s"
	}
	proxy, err := netfault.Listen(server)
	a.must(err)
	t.Cleanup(proxy.Close)
	a.worker("worker")
	a.orchestrator("orchestrator-1")
	a.orchestrator("orchestrator-2")
	before := a.spread(a.rdb, 2)
	a.orchestrator("orchestrator-3", fmt.Sprintf(variable, proxy.Addr()))
	i := isolated{harness: a, proxy: proxy}
	for m := range a.spread(a.rdb, 3) {
		if before[m] == 0 {
			i.member = m
		}
	}
	a.join()
	return i
}

// owns reports whether the isolated orchestrator owns the partition of an instance.
func (i isolated) owns(instance string) bool {
	part := redisx.NewSpace(i.Namespace).Part(transport.PartitionOf(instance, i.Partitions))
	m, err := i.rdb.HGet(i.ctx, part.Owner(), "member").Result()
	return err == nil && m == i.member
}

// ownedID returns an id in one of the partitions of the isolated member.
func (i isolated) ownedID(prefix string) string {
	i.t.Helper()
	for n := range 1000 {
		if id := fmt.Sprintf("%s-%d", prefix, n); i.owns(id) {
			return id
		}
	}
	i.t.Fatalf("%s owns no partition", i.member)
	return ""
}

// continues checks that, while the fault lasts, instances of its partitions proceed and the context of a cancelled activity
// ends.
func (i isolated) continues(fault func()) {
	i.t.Helper()
	lost := i.ownedID("lost")
	_, err := client.Start(i.ctx, i.Client, work.CallHanging, lost, pawl.None{})
	i.must(err)
	poll.Until(i.t, within, "the activity runs", func() bool { return len(i.lines("hanging")) == 1 })
	canary := i.ownedID("canary")
	began := time.Now()
	fault()
	i.must(i.Client.Cancel(i.ctx, lost, "no longer required"))
	_, err = client.Start(i.ctx, i.Client, work.Mixed, canary, 1)
	i.must(err)
	i.must(client.Send(i.ctx, i.Client, work.Go, canary, 10))
	i.begin(8)
	i.ended(canary)
	poll.Until(i.t, within, "the context of the cancelled activity has ended", func() bool { return len(i.lines("hanging.cancelled")) == 1 })
	took := time.Since(began)
	i.ended(lost) // until then, its lease is not a leak
	i.end()
	i.t.Logf("the instances of its partitions, and the context of the activity, ended %v after the fault", took.Round(time.Millisecond))
	if limit := 60 * time.Second; took > limit { // without a hand-over it would take forever, because the fault lasts
		i.t.Errorf("it took more than %v", limit)
	}
	poll.Until(i.t, within, "no partition is owned by an orchestrator that cannot serve it", func() bool { return i.owners(i.rdb)[i.member] == 0 })
}

// checkReturn checks that it regains its share of partitions after the fault.
func (i isolated) checkReturn() {
	i.t.Helper()
	i.proxy.Heal()
	i.spread(i.rdb, 3)
	i.begin(8)
	i.end()
	for _, p := range i.Processes {
		p.Stop()
	}
	i.check()
}

func TestIsolatedOrchestratorIsReplacedAndReturns(t *testing.T) {
	for _, c := range []struct {
		name  string
		redis bool
		fault func(*netfault.Proxy)
	}{
		{"NATS, black hole", false, (*netfault.Proxy).BlackHole},
		{"Redis, connections cut", true, (*netfault.Proxy).Cut},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := isolate(t, c.redis)
			i.continues(func() { c.fault(i.proxy) })
			i.checkReturn()
		})
	}
}

// An outage of NATS for all members moves no partition, even if it lasts longer than an isolated member would keep its
// partitions.
func TestNATSOutageOfAllMembersMovesNoPartition(t *testing.T) {
	t.Parallel()
	a := newHarnessOf(t, startDurableServers(t), 32, "FLEET_OWNER_TTL=30s") // on a busy machine, nothing may expire either
	for n := range 3 {
		a.orchestrator(fmt.Sprint("orchestrator-", n))
	}
	a.worker("worker")
	a.spread(a.rdb, 3)
	a.begin(4)
	a.end()
	before := a.epochs()
	a.nats.Kill()
	outage := time.NewTimer(8 * time.Second)
	<-outage.C
	a.nats.Start()
	a.begin(4)
	a.end()
	if after := a.epochs(); after != before {
		t.Errorf("partitions have moved: acquired %s times, before %s times", after, before)
	}
}
