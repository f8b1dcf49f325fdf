package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// family is a harness whose instances start, cancel and send events to each other; see package work. end waits until all
// have ended, and checks the results.
type family struct {
	*harness
	inputs          []work.ParentInput // parent n has the id parentID(n)
	cancelledInputs []work.ParentInput // cancelled parent n has the id cancelledID(n)
	notes           int                // notes that clients have sent
}

func newFamily(t *testing.T, s servers, env ...string) *family {
	t.Helper()
	parts := 4
	if s.other != nil {
		parts = 8 // so that each master has some
	}
	return &family{harness: newHarnessOf(t, s, parts, env...)}
}

// The masters of two Redis servers: any of them, or the one of parents or of children.
const (
	either = iota
	parents
	children
)

// at returns an id whose partition is on a master.
func (f *family) at(master int, prefix string, n int) string {
	f.t.Helper()
	id := fmt.Sprintf("%s-%d", prefix, n)
	c, several := f.rdb.(*redis.ClusterClient)
	if master == either || !several {
		return id
	}
	want := map[int]string{parents: f.redis.Addr, children: f.other.Addr}[master]
	for try := range 100 {
		id := fmt.Sprintf("%s:%d", id, try)
		node, err := c.MasterForKey(f.ctx, redisx.NewSpace(f.Namespace).Part(transport.PartitionOf(id, f.Partitions)).Owner())
		f.must(err)
		if strings.HasSuffix(want, node.Options().Addr) { // the client strips the loopback address
			return id
		}
	}
	f.t.Fatalf("no partition of %d is on %s", f.Partitions, want)
	return ""
}

func (f *family) parentID(n int) string    { return f.at(parents, "parent", n) }
func (f *family) cancelledID(n int) string { return f.at(parents, "cancelled", n) }

// begin starts n further parents, one that is cancelled, and the counting instances, and has clients send notes, some of which
// arrive before there is a receiver.
func (f *family) begin(n int) {
	f.t.Helper()
	f.join()
	f.sendNote()
	for range n {
		i := len(f.inputs)
		h := work.ParentInput{
			N: i, Child: f.at(children, "child", i), Abandoned: f.at(children, "abandoned", i), Detached: f.at(children, "detached", i), Taken: f.at(children, "taken", i),
			Deadline: time.Duration(100+50*(i%3)) * time.Millisecond,
		}
		_, err := client.Start(f.ctx, f.Client, work.Child, h.Taken, work.ChildInput{N: i})
		f.must(err)
		run, err := client.Start(f.ctx, f.Client, work.Parent, f.parentID(i), h)
		f.must(err)
		f.inputs = append(f.inputs, h)
		f.wait(run)
	}
	i := len(f.cancelledInputs)
	d := work.ParentInput{N: i, Abandoned: f.at(children, "spared", i)}
	_, err := client.Start(f.ctx, f.Client, work.CancelledParent, f.cancelledID(i), d)
	f.must(err)
	f.cancelledInputs = append(f.cancelledInputs, d)
	f.sendNote()
}

// sendNote has a client send a note, and repeat the previous one.
func (f *family) sendNote() {
	f.t.Helper()
	for i := max(0, f.notes-1); i <= f.notes; i++ {
		f.note(i)
	}
	f.notes++
}

func noteID(i int) string { return fmt.Sprintf("note-%d", i) }

func (f *family) note(i int) {
	f.t.Helper()
	f.must(client.Send(f.ctx, f.Client, work.Noted, work.RelayID, work.Note{IDs: []string{noteID(i)}, Sum: i}, client.MessageID(noteID(i))))
}

// until waits for a condition. If restartsDead is set, it restarts processes that have died.
func (a *harness) until(what string, yes func() bool) {
	a.t.Helper()
	poll.Until(a.t, within, what, func() bool {
		a.restartDead()
		return yes()
	})
}

func (a *harness) restartDead() {
	for _, p := range a.Processes {
		select {
		case <-p.Ended():
			if a.restartsDead {
				a.deaths++
				p.Start()
			}
		default:
		}
	}
}

// end waits until everything has ended, and checks the results.
func (f *family) end() {
	f.t.Helper()
	f.cancelParents()
	for i, h := range f.inputs {
		f.untilEnded(f.parentID(i))
		f.must(client.Send(f.ctx, f.Client, work.Go, h.Abandoned, 0, client.MessageID("go")))
	}
	for i, d := range f.cancelledInputs {
		f.untilEnded(f.cancelledID(i))
		f.must(client.Send(f.ctx, f.Client, work.Go, d.Abandoned, 0, client.MessageID("go")))
	}
	f.settled(work.RelayID, work.CounterID)
	for i := range f.notes { // the executions that received them have ended
		f.note(i)
	}
	f.must(client.Send(f.ctx, f.Client, work.Noted, work.RelayID, work.Note{Last: true}, client.MessageID("last")))
	all := f.settled()
	f.totals(all)
	f.results()
	f.check()
	f.cancelled()
	f.checkRuns(all)
	f.describesNothingPending(all)
}

// cancelParents cancels each cancelled parent when the activity of its grandchild is running.
func (f *family) cancelParents() {
	f.t.Helper()
	for i := range f.cancelledInputs {
		id := f.cancelledID(i)
		f.until("the grandchild of "+id+" runs its activity", func() bool {
			return slices.ContainsFunc(f.lines("began"), func(l []string) bool { return strings.HasPrefix(l[1], id+"~") })
		})
		f.must(f.Client.Cancel(f.ctx, id, "enough", client.MessageID("cancel")))
	}
}

func (f *family) untilEnded(id string) {
	f.t.Helper()
	defer f.show(id)
	f.until(id+" has ended", func() bool {
		rec := f.Record(id)
		return rec != nil && rec.Status.Ended()
	})
}

// show describes instances if the test has failed.
func (f *family) show(ids ...string) {
	for _, id := range ids {
		if f.t.Failed() {
			f.t.Log(f.describe(id))
		}
	}
}

// results compares the results that the waiting clients of the parents have received.
func (f *family) results() {
	f.t.Helper()
	for i, o := range f.mixed {
		timeout := time.NewTimer(within)
		select {
		case <-o.received:
			if want := work.ParentResult(i); o.err != nil || o.sum != want {
				f.t.Errorf("%s: the client received %d (%v), want %d", f.parentID(i), o.sum, o.err, want)
			}
		case <-timeout.C:
			f.t.Errorf("%s has ended, and its client has received nothing", f.parentID(i))
		}
		timeout.Stop()
	}
}
