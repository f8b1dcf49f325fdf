package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
)

const instances = 12

func instance(n int) string { return fmt.Sprint("instance-", n) }

// running waits until each of the instances has taken a turn.
func (a *harness) running(ids ...string) {
	a.t.Helper()
	for _, id := range ids {
		poll.Until(a.t, within, id+" runs", func() bool { return a.Record(id) != nil })
	}
}

// startInstances starts the instances, and returns the time before the first deadline and the time at which all deadlines have passed.
func (a *harness) startInstances(limit time.Duration) (first, last time.Time) {
	a.t.Helper()
	first = time.Now().Add(limit)
	for n := range instances {
		_, err := client.Start(a.ctx, a.Client, work.EventOrDeadline, instance(n), limit)
		a.must(err)
	}
	for n := range instances {
		a.running(instance(n))
	}
	return first, time.Now().Add(limit + 200*time.Millisecond)
}

// sendEvents sends every instance its event. The test is skipped unless all of them are accepted before the first deadline.
func (a *harness) sendEvents(first time.Time) {
	a.t.Helper()
	for n := range instances {
		a.must(client.Send(a.ctx, a.Client, work.Go, instance(n), n))
	}
	if time.Now().Add(300 * time.Millisecond).After(first) {
		a.t.Skip("the machine is too slow: the deadline passed before the events were sent")
	}
}

// checkDecidedByEvents checks that the events were decided before the deadlines.
func (a *harness) checkDecidedByEvents() {
	a.t.Helper()
	for n := range instances {
		run := client.Attach(a.Client, work.EventOrDeadline, instance(n))
		got, err := run.Result(a.ctx)
		a.must(err)
		if got != work.ByEvent {
			a.t.Errorf("%s was decided by its %s, although its event was accepted earlier", instance(n), got)
		}
	}
}

// Trap: after an outage, a timer is decided before the inputs that were accepted before it was due have been read. All
// orchestrators are killed, events are acknowledged, their deadlines pass, and an orchestrator starts.
func TestEventAcceptedBeforeDeadlineWinsAfterTakeover(t *testing.T) {
	t.Parallel()
	const limit, events = 8 * time.Second, 60
	a := newHarness(t, startServers(t), "FLEET_OWNER_TTL=1s")
	one, two := a.orchestrator("orchestrator-1"), a.orchestrator("orchestrator-2")
	a.join()
	_, err := client.Start(a.ctx, a.Client, work.Digest, "digest", limit)
	a.must(err)
	end := time.Now().Add(limit) // the digest ends later
	a.must(client.Send(a.ctx, a.Client, work.Go, "digest", 0))
	first, last := a.startInstances(limit)
	a.running("digest")
	one.Kill()
	two.Kill()
	a.sendEvents(first)
	for n := range events - 1 {
		a.must(client.Send(a.ctx, a.Client, work.Go, "digest", 1+n))
		if time.Now().After(end) {
			t.Skip("the machine is too slow: the deadline passed before the events were sent")
		}
	}
	poll.Until(t, within, "the deadlines pass", func() bool { return time.Now().After(last) })
	one.Start()
	a.checkDecidedByEvents()
	got, err := client.Attach(a.Client, work.Digest, "digest").Result(a.ctx)
	a.must(err)
	if got != events {
		t.Errorf("the digest contains %d of %d events", got, events)
	}
	a.check()
}

// An owner that is cut off from NATS keeps its partitions while deadlines pass, because it is the only member. It decides
// nothing by time until it can read the inputs that were accepted in the meantime.
func TestOwnerThatCannotReadInputsFiresNoTimer(t *testing.T) {
	t.Parallel()
	const limit = 8 * time.Second
	s := startServers(t)
	a := newHarness(t, s)
	proxy, err := netfault.Listen(strings.TrimPrefix(s.nats.URL(), "nats://"))
	a.must(err)
	t.Cleanup(proxy.Close)
	a.orchestrator("orchestrator", "PAWL_NATS=nats://"+proxy.Addr())
	a.join()
	first, last := a.startInstances(limit)
	proxy.BlackHole()
	a.sendEvents(first)
	poll.Until(t, within, "the deadlines have passed", func() bool { return time.Now().After(last.Add(2 * time.Second)) })
	for n := range instances {
		if rec := a.Record(instance(n)); rec != nil && rec.Status.Ended() {
			t.Errorf("%s has ended before its event was read", instance(n))
		}
	}
	proxy.Heal()
	a.checkDecidedByEvents()
	a.check()
}
