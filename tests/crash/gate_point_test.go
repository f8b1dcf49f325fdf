package crash

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/gate"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// firstGatePoint is one that every incarnation passes before it has done anything: there only one dies.
const firstGatePoint = "gate.listed"

// gatePoints are where somebody dies who has to do with a gate, and at which pass.
func gatePoints() []tellingPoint {
	return []tellingPoint{
		{firstGatePoint, "1"}, {firstGatePoint, "2"}, {"orchestrator.entered", "3"}, {"orchestrator.left", "6"}, {"orchestrator.swept", "2"}, {"orchestrator.turned", "14"},
		{"orchestrator.committed", "14"}, {"orchestrator.published", "9"}, {"worker.claimed", "9"}, {"worker.acked", "9"},
	}
}

// Of the only orchestrator, or the only worker, every incarnation dies when it passes the crash point so many times, and is
// followed by another: while they come to stand in line, and while they are let in.
func TestQueuesWhoseOwnersDieAtACrashPointAgainAndAgainKeepTheirOrderAndTheirLimits(t *testing.T) {
	s := startServers(t)
	for _, c := range gatePoints() {
		t.Run(c.point+":"+c.passes, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, s)
			q.tended = true
			deadly := []string{"PAWL_FAILPOINT=" + c.point + ":" + c.passes}
			if c.point == firstGatePoint {
				deadly = append(deadly, "PAWL_FAILPOINT_FILE="+filepath.Join(t.TempDir(), "passed"))
			}
			for _, role := range []string{"orchestrator", "worker"} {
				q.process(role, role, deadly...)
			}
			q.begin()
			q.open()
			q.end()
			if q.deaths == 0 {
				t.Errorf("nobody has died")
			}
			t.Logf("%d deaths", q.deaths)
		})
	}
}

// The owner of everything dies when the holder has ended, and the one after it knows nothing of that. (With one booth for each
// visitor the commits are known: three starts, and the first end.)
func TestASlotWhoseHolderEndedAsItsOwnerDiedIsFreeWithinSeconds(t *testing.T) {
	s := startServers(t)
	for _, point := range []string{"orchestrator.committed:4", "orchestrator.left:1", "orchestrator.answered:1"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, s)
			o := q.orchestrator("orchestrator", "PAWL_FAILPOINT="+point)
			q.worker("worker")
			q.join()
			for i := range work.Places + 1 {
				q.visit(q.visitorID(i), 1)
				q.stand(work.Booth.Name(), func(s gate.Stats) bool { return s.TotalEnqueued == uint64(i+1) })
			}
			q.until("all places are taken", func() bool { return len(q.lines(work.BoothIn)) == work.Places })
			q.open()
			died(t, o)
			began := time.Now()
			o = q.orchestrator("heir")
			q.until("the next has come", func() bool { return len(q.lines(work.BoothIn)) > work.Places })
			took := time.Since(began)
			if took > leakedFor+time.Second { // after which its predecessor's partitions are free
				t.Errorf("the next came %v after there was an owner again", took)
			}
			t.Logf("the next came after %v", took)
			for i := range work.Places + 1 {
				q.completed(q.visitorID(i), 1)
			}
			q.left(map[string]uint64{work.Booth.Name(): work.Places + 1})
			o.Stop()
			q.check()
		})
	}
}

// One of two stands still at the crash point, goes on when all is over, and finds nothing that is still its own.
func TestAnOrchestratorThatWasPausedAtAGateDoesNoHarmWhenItWakes(t *testing.T) {
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
			var paused *stack.Process
			poll.Until(t, within, "an orchestrator stands still", func() bool {
				for _, p := range both {
					if p.Paused() {
						paused = p
					}
				}
				return paused != nil
			})
			paused.Signal(syscall.SIGCONT)
			paused.Stop()
			q.left(map[string]uint64{work.Booth.Name(): visitors * booths, work.Lobby.Name(): guests})
			q.check()
		})
	}
}

// Everybody is killed while they stand in line and while they are let in, one after the other.
func TestQueuesWhoseFleetsAreKilledAtAnyMomentKeepTheirOrderAndTheirLimits(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	q.fleets()
	all := q.all
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
