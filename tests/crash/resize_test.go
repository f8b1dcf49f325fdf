package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// resizing is a namespace with instances in every state, whose number of partitions changes.
type resizing struct {
	*harness
	started int
	updates map[int]bool // instances that have received an update
	more    bool         // there are other instances
	during  int          // number of instances that were started while the command ran
}

func moved(n int) string { return fmt.Sprintf("moving-%d", n) }

// start starts instances. Those that wait for an update receive it.
func (a *resizing) start(n int) {
	a.t.Helper()
	a.join()
	for range n {
		i := a.started
		a.started++
		_, err := client.Start(a.ctx, a.Client, work.Moving, moved(i), i, client.MessageID("start"))
		a.must(err)
		if i%work.States == work.StateUpdate {
			_, err := client.SendUpdate(a.ctx, a.Client, work.Sum, moved(i), i, client.UpdateID("once"))
			a.must(err)
			a.updates[i] = true
		}
	}
}

// release sends each instance, and each child, its event, always with the same id.
func (a *resizing) release() {
	a.t.Helper()
	a.join()
	for i := range a.started {
		a.must(client.Send(a.ctx, a.Client, work.Go, moved(i), i+1, client.MessageID("go")))
		if i%work.States == work.StateChild {
			a.must(client.Send(a.ctx, a.Client, work.Go, work.ChildOf(i), i+1, client.MessageID("go")))
		}
	}
}

// to makes the client, and the processes that start from now on, expect a number of partitions.
func (a *resizing) to(partitions int) {
	a.Partitions, a.Client = partitions, nil
	a.Env = append(slices.Clip(a.Env), "PAWL_PARTITIONS="+strconv.Itoa(partitions))
}

// resize runs the command, which dies at the crash point if one is given.
func (a *resizing) resize(partitions int, point string) {
	a.t.Helper()
	mark := filepath.Join(a.t.TempDir(), "passed")
	p := a.process("resize", "resize", "PAWL_PARTITIONS="+strconv.Itoa(partitions), "PAWL_FAILPOINT="+point, "PAWL_FAILPOINT_FILE="+mark)
	died(a.t, p)
	if point == "" {
		p.Stopped()
	} else if _, err := os.Stat(mark); err != nil {
		a.t.Fatalf("%s was not passed (%v): %s", point, err, p.Log())
	}
}

// refused starts a member, which must end with an error that contains the text.
func (a *resizing) refused(role, want string) {
	a.t.Helper()
	p := a.process(role, "refused "+role)
	died(a.t, p)
	if !strings.Contains(p.Log(), want) {
		a.t.Errorf("%s: %q is not in %s", role, want, p.Log())
	}
}

// settled waits until the instances have reached the states in which they wait.
func (a *resizing) settled() {
	a.t.Helper()
	per := a.started / work.States
	poll.Until(a.t, within, "instances are in their states", func() bool {
		for i := range a.started {
			rec := a.Record(moved(i))
			if rec == nil || rec.Events == 0 {
				return false
			}
			if i%work.States == work.StateChild && a.Record(work.ChildOf(i)) == nil {
				return false
			}
		}
		return len(a.lines("hanging")) >= per && len(a.lines(work.LimitedAdmitted)) >= min(per, work.Slots)
	})
}

// finish starts fleets, and checks that every instance ends once, with the result of one event.
func (a *resizing) finish() {
	a.t.Helper()
	a.process("orchestrator", "last orchestrator")
	victim := a.process("worker", "last but one worker")
	poll.Until(a.t, within, "every activity of the first worker is claimed", func() bool {
		return len(a.lines("hanging")) >= (a.started+work.States-1-work.StateActivity)/work.States
	})
	victim.Kill()
	a.process("worker", "last worker")
	a.must(work.Ledger(a.ledger).ReleaseHolders())
	a.Client = nil // it may expect the previous number
	a.release()    // repeated, with known ids
	if a.more {
		a.others()
	}
	for i := range a.started {
		end, err := a.ended(moved(i)).EndEvent()
		a.must(err)
		done, ok := end.(*history.Completed)
		if got := ""; !ok || string(done.Result.Data) != strconv.Itoa(i+1) {
			if ok {
				got = string(done.Result.Data)
			}
			a.t.Errorf("%s ended with %T %s, want %d", moved(i), end, got, i+1)
		}
		if a.updates[i] {
			a.answered(i)
		}
	}
	for i := range a.during {
		if end, ok := a.End(within, meanwhile(i)).(*history.Completed); !ok || string(end.Result.Data) != "7" {
			a.t.Errorf("%s has ended with %+v", meanwhile(i), end)
		}
	}
	a.stale()
	a.check()
}

// stale checks that a client with the previous number receives an error, and not the answer that an instance does not exist.
func (a *resizing) stale() {
	a.t.Helper()
	conn, err := transport.Join(a.ctx, a.nats.Client(), transport.Options{Namespace: a.Namespace})
	a.must(err)
	defer conn.Close()
	other := (a.PartitionOf(moved(0)) + 1) % a.Partitions
	err = request.Call(a.ctx, conn, other, &request.Describe{Instance: moved(0)}, &request.Description{})
	if err == nil || !strings.Contains(err.Error(), "the partitions were resized") {
		a.t.Errorf("a request to another partition: %v", err)
	}
}

// others checks the other instances: one has ended, one was purged, and one is a schedule.
func (a *resizing) others() {
	a.t.Helper()
	if rec := a.Record("ended"); rec == nil || rec.Status != record.Completed {
		a.t.Errorf("the instance that had ended is %+v", rec)
	}
	if rec := a.Record("purged"); rec != nil {
		a.t.Errorf("the instance that was purged is %+v", rec)
	}
	before, err := a.Client.DescribeSchedule(a.ctx, "seconds")
	a.must(err)
	poll.Until(a.t, within, "the schedule continues", func() bool {
		now, err := a.Client.DescribeSchedule(a.ctx, "seconds")
		return err == nil && now.Done > before.Done+1
	})
	a.must(a.Client.DeleteSchedule(a.ctx, "seconds"))
}

// answered checks that the update was received once, and that a repeat has the same answer.
func (a *resizing) answered(i int) {
	a.t.Helper()
	got, err := client.Update(a.ctx, a.Client, work.Sum, moved(i), i, client.UpdateID("once"))
	if err != nil || got != 2*i+1 {
		a.t.Errorf("%s: the update was answered with %d (%v), want %d", moved(i), got, err, 2*i+1)
	}
	n := 0
	for _, e := range a.History(moved(i), 1) {
		if _, ok := e.(*history.UpdateReceived); ok {
			n++
		}
	}
	if n != 1 {
		a.t.Errorf("%s has received its update %d times", moved(i), n)
	}
}

// onServers runs a test on one Redis server, and on several that share the slots.
func onServers(t *testing.T, test func(a *resizing)) {
	t.Helper()
	for name, several := range map[string]bool{"one redis": false, "two redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servers{nats: stack.StartNATS(t, bin, stack.SyncInterval), redis: redistest.Start(t)}
			if several {
				s.other = redistest.Start(t)
			}
			test(&resizing{harness: newHarnessOf(t, s, 8), updates: make(map[int]bool)})
		})
	}
}

// begin starts fleets with eight partitions and instances in every state, and stops the fleets: the orchestrator hands over,
// and the worker dies with its running activities.
func (a *resizing) begin() {
	a.t.Helper()
	o, w := a.orchestrator("orchestrator"), a.worker("worker")
	a.start(4 * work.States)
	for _, instance := range []string{"ended", "purged"} {
		run, err := client.Start(a.ctx, a.Client, work.Moving, instance, 0)
		a.must(err)
		a.must(client.Send(a.ctx, a.Client, work.Go, instance, 5))
		_, err = run.Result(a.ctx)
		a.must(err)
	}
	a.must(a.Client.Purge(a.ctx, "purged"))
	a.must(a.Client.CreateSchedule(a.ctx, "seconds", client.Schedule{
		Times: client.Times{Cron: []string{"@every 1s"}}, Send: &client.ScheduleSend{Instance: "ended", Event: work.Go.Name(), Input: json.RawMessage("1")},
	}))
	a.must(client.Send(a.ctx, a.Client, work.Go, moved(a.started), a.started+1, client.MessageID("go"))) // before its start
	a.more = true
	a.settled()
	a.refusedWhileBusy()
	o.Stop()
	w.Kill()
}

// refusedWhileBusy checks that the command does not change a fleet that is running.
func (a *resizing) refusedWhileBusy() {
	a.t.Helper()
	p := a.process("resize", "resize of a fleet that runs", "PAWL_PARTITIONS=64")
	died(a.t, p)
	if want := "the fleet is not stopped: orchestrator "; !strings.Contains(p.Log(), want) {
		a.t.Errorf("%q is not in %s", want, p.Log())
	}
}

// publish starts instances and sends them their event, repeatedly, until the returned function is called.
func (a *resizing) publish() (stop func()) {
	a.t.Helper()
	over, done := make(chan struct{}), make(chan error, 1)
	c := a.Client
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				done <- nil
				return
			case <-tick.C:
			}
			if a.during == 300 {
				continue
			}
			id := meanwhile(a.during)
			if _, err := client.Start(a.ctx, c, work.Moving, id, 0); err != nil {
				done <- err
				return
			}
			if err := client.Send(a.ctx, c, work.Go, id, 7); err != nil {
				done <- err
				return
			}
			a.during++
		}
	}()
	return func() {
		a.t.Helper()
		close(over)
		a.must(<-done)
	}
}

func meanwhile(n int) string { return fmt.Sprintf("meanwhile-%d", n) }

func TestResizedPartitionsLoseNothingWhereverTheCommandDies(t *testing.T) {
	t.Parallel()
	onServers(t, func(a *resizing) {
		a.begin()
		a.release()
		stop := a.publish()
		a.to(64)
		for _, at := range []pointAndPasses{
			{"resize.begun", "1"}, {"resize.seized", "1"}, {"resize.filed", "1"}, {"resize.copying", "30"}, {"resize.copying.done", "1"},
			{"resize.removing", "30"}, {"resize.removing.done", "1"}, {"resize.positioned", "1"}, {"resize.ingested", "3"}, {"resize.released", "1"},
		} {
			a.resize(64, at.point+":"+at.passes)
			a.start(1)
		}
		a.refused("orchestrator", "partitions are being resized")
		a.refused("worker", "partitions are being resized")
		a.resize(64, "")
		a.Check()
		a.to(16)
		a.refused("orchestrator", "has 64 partitions, not 16")
		a.release()
		a.resize(16, "resize.copying:30")
		a.resize(16, "resize.removing:30")
		a.resize(16, "")
		stop()
		a.Check()
		a.finish()
	})
}

func TestResizeIsUndoneWhileItCopies(t *testing.T) {
	t.Parallel()
	onServers(t, func(a *resizing) {
		a.begin()
		a.resize(64, "resize.copying:30")
		a.release()
		a.resize(8, "resize.removing:10")
		a.resize(8, "")
		a.Check()
		a.start(1) // its event arrived before it
		a.finish()
	})
}

// Trap: a member that was paused while the partitions were resized takes some of them, and reads state that is filed by
// another number of partitions.
func TestMemberPausedDuringAResizeTakesNoPartition(t *testing.T) {
	t.Parallel()
	onServers(t, func(a *resizing) {
		o := a.orchestrator("paused")
		a.start(work.States)
		poll.Until(a.t, within, "the instances have begun", func() bool { return a.Record(moved(a.started-1)) != nil })
		o.Signal(syscall.SIGSTOP)
		a.untilConsideredDead(o)
		a.resize(16, "")
		o.Signal(syscall.SIGCONT)
		poll.Until(a.t, within, "the member detects the resize", func() bool { return strings.Contains(o.Log(), "partitions resized, restart this process") })
		a.to(16)
		a.finish()
	})
}

// untilConsideredDead waits until the last heartbeat of the only member is so old that the command considers the member dead.
func (a *resizing) untilConsideredDead(o *stack.Process) {
	a.t.Helper()
	poll.Until(a.t, within, "the last heartbeat of the member is old enough", func() bool {
		now, err := a.rdb.Time(a.ctx).Result()
		beats := a.rdb.HVals(a.ctx, redisx.NewSpace(a.Namespace).Members()).Val()
		if err != nil || len(beats) != 1 || !o.Paused() {
			return false
		}
		digits, _, _ := strings.Cut(beats[0], " ")
		ms, err := strconv.ParseInt(digits, 10, 64)
		return err == nil && now.Sub(time.UnixMilli(ms)) > 10*time.Second
	})
}
