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

// Points that every incarnation passes before it makes progress: only one process dies there. (An orchestrator enters two
// limits at once. If it always died on the second pass, it would never act on the first limit.)
const (
	firstLimitPoint = "limit.listed"
	sweptPoint      = "orchestrator.swept"
)

// limitPoints are the crash points that calls of a limited action pass, and the passes on which a process dies.
func limitPoints() []pointAndPasses {
	return []pointAndPasses{
		{firstLimitPoint, "2"}, {"orchestrator.entered", "8"}, {"orchestrator.left", "6"}, {sweptPoint, "2"},
		{"orchestrator.committed", "14"}, {"worker.acked", "9"},
	}
}

// Every incarnation of the only orchestrator, or of the only worker, dies after a number of passes of the crash point, and
// is replaced by another, both while calls begin to wait and while they are admitted.
func TestLimitsHoldAndStayFIFOWhenOwnersDieRepeatedlyAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, c := range limitPoints() {
		t.Run(c.point+":"+c.passes, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, s)
			q.restartsDead = true
			deadly := []string{"PAWL_FAILPOINT=" + c.point + ":" + c.passes}
			if c.point == firstLimitPoint || c.point == sweptPoint {
				deadly = append(deadly, "PAWL_FAILPOINT_FILE="+filepath.Join(t.TempDir(), "passed"))
			}
			for _, role := range []string{"orchestrator", "worker"} {
				q.process(role, role, deadly...)
			}
			q.begin()
			q.releaseHolders()
			q.end()
			if q.deaths == 0 {
				t.Errorf("no process has died")
			}
			t.Logf("%d deaths", q.deaths)
		})
	}
}

// The owner of all partitions dies after a holder has ended and before it has left its limit. Its successor has no record of
// the holder in memory.
func TestSlotIsReleasedWhenOwnerDiesAsHolderEnds(t *testing.T) {
	s := startServers(t)
	for _, c := range []struct {
		name, limit, point string // point: the commit of the end
		continues          bool   // whether the holder's instance continues
		begin              func(q *queueing) (id string)
	}{
		{"an activity that is cancelled", work.Limited.Name(), "orchestrator.committed:2", false, func(q *queueing) string {
			id := q.callerID(0)
			q.call(id, 1)
			q.until("the holder is admitted", func() bool { return len(q.lines(work.LimitedAdmitted)) > 0 })
			q.must(q.Client.Cancel(q.ctx, id, "no longer required"))
			return id
		}},
		{"an activity that keeps its slot, of an instance that continues", work.Limited.Name(), "orchestrator.committed:2", true, func(q *queueing) string {
			_, err := client.Start(q.ctx, q.Client, work.RetainingCaller, "retaining", 0)
			q.must(err)
			q.until("the holder is admitted", func() bool { return len(q.lines(work.LimitedAdmitted)) > 0 })
			q.must(client.Send(q.ctx, q.Client, work.Go, "retaining", 1, client.MessageID("go")))
			return "retaining"
		}},
		{"an instance", work.LimitedRun.Name(), "orchestrator.committed:4", false, func(q *queueing) string {
			id := q.runID(0)
			q.releaseHolders()
			_, err := client.Start(q.ctx, q.Client, work.LimitedRun, id, 0)
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
			if rec := q.Record(id); rec == nil || rec.Status.Ended() == c.continues {
				t.Errorf("the process died at another point: %+v", rec)
			}
			if s := q.stats(c.limit); s.Active != 1 {
				t.Errorf("the process died at another point: %+v", s)
			}
			q.orchestrator("successor")
			q.until("the partitions have an owner", func() bool {
				_, err := q.Client.Describe(q.ctx, id)
				return err == nil
			})
			q.checkReleased(map[string]uint64{c.limit: 1})
			if c.continues {
				q.must(client.Send(q.ctx, q.Client, work.Go, id, 1, client.MessageID("go again")))
				q.completed(id, 1)
			}
			q.check()
		})
	}
}

// The owner dies after a waiter was cancelled and before it has left the limit. The commits before are the starts of as many
// instances as there are slots, the start of the waiter, and its end.
func TestWaiterCancelledAsOwnerDiesIsNotAdmitted(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	o := q.orchestrator("orchestrator", "PAWL_FAILPOINT=orchestrator.committed:"+strconv.Itoa(work.Slots+2))
	q.worker("worker")
	q.join()
	for i := range work.Slots + 1 {
		q.call(q.callerID(i), 1)
		q.untilStats(work.Limited.Name(), func(s limiter.Stats) bool { return s.TotalEnqueued == uint64(i+1) })
	}
	q.must(q.Client.Cancel(q.ctx, q.callerID(work.Slots), "no longer required"))
	died(t, o)
	if s := q.stats(work.Limited.Name()); s.QueueLength != 1 {
		t.Errorf("the process died at another point: %+v", s)
	}
	q.orchestrator("successor")
	last := q.callerID(work.Slots + 1)
	q.call(last, 1)
	q.untilStats(work.Limited.Name(), func(s limiter.Stats) bool { return s.TotalEnqueued == work.Slots+2 })
	q.releaseHolders()
	for i := range work.Slots {
		q.completed(q.callerID(i), 1)
	}
	q.completed(last, 1)
	q.checkReleased(map[string]uint64{work.Limited.Name(): work.Slots + 2})
	if n := len(q.admitted(work.LimitedAdmitted)); n != work.Slots+1 {
		t.Errorf("%d were admitted: %v", n, q.admitted(work.LimitedAdmitted))
	}
	q.check()
}

// One of two orchestrators is paused at the crash point, and resumed after everything has ended under other owners.
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
			q.releaseHolders()
			q.end()
			paused := pausedOf(t, both)
			paused.Signal(syscall.SIGCONT)
			paused.Stop()
			q.checkReleased(map[string]uint64{work.Limited.Name(): callers * callsEach, work.LimitedRun.Name(): runs})
			q.check()
		})
	}
}

// The processes are killed one after another, while calls wait and while they are admitted.
func TestLimitsHoldAndStayFIFOWhenProcessesAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	q.fleets()
	all := q.Processes
	q.begin()
	q.releaseHolders()
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
