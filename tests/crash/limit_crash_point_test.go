package crash

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// Points that every incarnation passes before it has done anything: there only one dies. (Two limits are entered at once, and an orchestrator that
// died at the second visit would never come to act on the first.)
const (
	firstGatePoint = "gate.listed"
	sweptPoint     = "orchestrator.swept"
)

// gatePoints are the crash points that calls of a limited action pass, and at which pass a process dies.
func gatePoints() []tellingPoint {
	return []tellingPoint{
		{firstGatePoint, "2"}, {"orchestrator.entered", "8"}, {"orchestrator.left", "6"}, {sweptPoint, "2"},
		{"orchestrator.committed", "14"}, {"worker.acked", "9"},
	}
}

// Of the only orchestrator, or the only worker, every incarnation dies when it passes the crash point so many times, and is
// followed by another: while calls begin to wait, and while they are admitted.
func TestLimitsHoldAndStayFIFOWhenOwnersDieRepeatedlyAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, c := range gatePoints() {
		t.Run(c.point+":"+c.passes, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, s)
			q.tended = true
			deadly := []string{"PAWL_FAILPOINT=" + c.point + ":" + c.passes}
			if c.point == firstGatePoint || c.point == sweptPoint {
				deadly = append(deadly, "PAWL_FAILPOINT_FILE="+filepath.Join(t.TempDir(), "passed"))
			}
			for _, role := range []string{"orchestrator", "worker"} {
				q.process(role, role, deadly...)
			}
			q.begin()
			q.open()
			q.end()
			if q.deaths == 0 {
				t.Errorf("no process has died")
			}
			t.Logf("%d deaths", q.deaths)
		})
	}
}

// The owner of everything dies when a holder has ended and has not left its limit, and its successor has no record of that.
func TestSlotIsReleasedWhenOwnerDiesAsHolderEnds(t *testing.T) {
	s := startServers(t)
	for _, c := range []struct {
		name, gate, point string // the commit of the end
		lives             bool   // the holder's instance
		begin             func(q *queueing) (id string)
	}{
		{"an activity that is cancelled", work.Booth.Name(), "orchestrator.committed:2", false, func(q *queueing) string {
			id := q.visitorID(0)
			q.visit(id, 1)
			q.until("it is in", func() bool { return len(q.lines(work.BoothIn)) == 1 })
			q.must(q.Client.Cancel(q.ctx, id, "not needed any more"))
			return id
		}},
		{"an activity that keeps its slot, of an instance that goes on", work.Booth.Name(), "orchestrator.committed:2", true, func(q *queueing) string {
			_, err := client.Start(q.ctx, q.Client, work.Regular, "regular", 0)
			q.must(err)
			q.until("it is in", func() bool { return len(q.lines(work.BoothIn)) == 1 })
			q.must(client.Send(q.ctx, q.Client, work.Go, "regular", 1, client.MessageID("go")))
			return "regular"
		}},
		{"an instance", work.Lobby.Name(), "orchestrator.committed:4", false, func(q *queueing) string {
			id := q.guestID(0)
			q.open()
			_, err := client.Start(q.ctx, q.Client, work.Lobby, id, 0)
			q.must(err)
			return id
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, s)
			o := q.orchestrator("orchestrator", "PAWL_FAILPOINT="+c.point)
			q.worker("worker")
			q.join()
			id := c.begin(q)
			died(t, o)
			if rec := q.Record(id); rec == nil || rec.Status.Ended() == c.lives {
				t.Errorf("that was not the moment: %+v", rec)
			}
			if s := q.stats(c.gate); s.Active != 1 {
				t.Errorf("that was not the moment: %+v", s)
			}
			q.orchestrator("successor")
			q.until("the partitions have an owner", func() bool {
				_, err := q.Client.Describe(q.ctx, id)
				return err == nil
			})
			q.left(map[string]uint64{c.gate: 1})
			if c.lives {
				q.must(client.Send(q.ctx, q.Client, work.Go, id, 1, client.MessageID("go again")))
				q.completed(id, 1)
			}
			q.check()
		})
	}
}

// The owner dies when a waiter has been cancelled and has not left the limit. (Its commits: as many starts
// as there are slots, that of the waiter, and its end.)
func TestWaiterCancelledAsOwnerDiesIsNotAdmitted(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	o := q.orchestrator("orchestrator", "PAWL_FAILPOINT=orchestrator.committed:"+strconv.Itoa(work.Places+2))
	q.worker("worker")
	q.join()
	for i := range work.Places + 1 {
		q.visit(q.visitorID(i), 1)
		q.stand(work.Booth.Name(), func(s limiter.Stats) bool { return s.TotalEnqueued == uint64(i+1) })
	}
	q.must(q.Client.Cancel(q.ctx, q.visitorID(work.Places), "not needed any more"))
	died(t, o)
	if s := q.stats(work.Booth.Name()); s.QueueLength != 1 {
		t.Errorf("that was not the moment: %+v", s)
	}
	q.orchestrator("successor")
	last := q.visitorID(work.Places + 1)
	q.visit(last, 1)
	q.stand(work.Booth.Name(), func(s limiter.Stats) bool { return s.TotalEnqueued == work.Places+2 })
	q.open()
	for i := range work.Places {
		q.completed(q.visitorID(i), 1)
	}
	q.completed(last, 1)
	q.left(map[string]uint64{work.Booth.Name(): work.Places + 2})
	if n := len(q.came(work.BoothIn)); n != work.Places+1 {
		t.Errorf("%d have come: %v", n, q.came(work.BoothIn))
	}
	q.check()
}

// One of two is paused at the crash point, and resumed when everything has ended and others own its partitions.
func TestOrchestratorPausedAtLimitDoesNoHarmWhenResumed(t *testing.T) {
	s := startServers(t)
	for _, point := range []string{"orchestrator.entered:4", "orchestrator.left:6", "orchestrator.swept:3"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "passed")
			q := newQueueing(t, s, "PAWL_FAILPOINT="+point+":stop", "PAWL_FAILPOINT_FILE="+mark)
			both := []*stack.Process{q.orchestrator("orchestrator-1"), q.orchestrator("orchestrator-2")}
			q.worker("worker")
			q.begin()
			q.open()
			q.end()
			paused := pausedOf(t, both)
			paused.Signal(syscall.SIGCONT)
			paused.Stop()
			q.left(map[string]uint64{work.Booth.Name(): visitors * booths, work.Lobby.Name(): guests})
			q.check()
		})
	}
}

// The processes are killed one after the other, while calls wait and while they are admitted.
func TestLimitsHoldAndStayFIFOWhenProcessesAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	q.fleets()
	all := q.Processes
	q.begin()
	q.open()
	const every = 300 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range 8 {
		<-tick.C
		p := all[(i*7+i/3)%len(all)]
		p.Kill()
		p.Start()
	}
	q.end()
}
