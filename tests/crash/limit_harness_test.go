package crash

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// queueing is a harness whose instances wait at limits: see package work. First all of them wait, whatever is done to
// the fleet, and none is released; then the ledger is opened, and end waits until all were admitted, and checks in which order they
// were, and with whom.
type queueing struct {
	*harness
	gates  *limiter.Limiter
	home   int                         // the Redis master of the instances, of several
	forgot bool                        // a Redis has lost writes: the limit and the order may be exceeded once
	over   map[string]int              // by limit; as many as were in at a time, if they were too many
	orders map[string][]limiter.Waiter // by limit; the waiters when it was opened
}

const (
	visitors = 6 // instances
	booths   = 5 // that each of them calls
	guests   = 6
)

// leakedFor is how long a slot may be lost, once all partitions have an owner.
const leakedFor = 5 * time.Second

func newQueueing(t *testing.T, s servers, env ...string) *queueing {
	t.Helper()
	a := newHarness(t, s, append([]string{"FLEET_OWNER_TTL=600ms", "PAWL_RECONCILE_INTERVAL=500ms"}, env...)...)
	run := redisx.NewRunner(a.rdb)
	t.Cleanup(run.Close)
	return &queueing{
		harness: a, orders: make(map[string][]limiter.Waiter), over: make(map[string]int),
		gates: limiter.New(run, redisx.NewSpace(a.Namespace), func(name string) int { return queue.PartitionOf(name, a.Partitions) }),
	}
}

func (q *queueing) visitorID(n int) string {
	return (&family{harness: q.harness}).at(q.home, "visitor", n)
}
func (q *queueing) guestID(n int) string { return (&family{harness: q.harness}).at(q.home, "guest", n) }

// begin starts all instances, and waits until all slots are taken and the other calls wait.
func (q *queueing) begin() {
	q.t.Helper()
	q.join()
	for i := range visitors {
		q.visit(q.visitorID(i), booths)
	}
	for i := range guests {
		_, err := client.Start(q.ctx, q.Client, work.Lobby, q.guestID(i), 0)
		q.must(err)
	}
	for _, c := range []struct {
		gate, in string
		waiting  int
	}{{work.Booth.Name(), work.BoothIn, visitors*booths - work.Places}, {work.Lobby.Name(), work.LobbyIn, guests - work.Places}} {
		q.stand(c.gate, func(s limiter.Stats) bool {
			return s.QueueLength == c.waiting && s.Active == work.Places && len(q.came(c.in)) == work.Places
		})
		q.orders[c.gate] = q.order(c.gate)
	}
}

func (q *queueing) visit(id string, booths int) {
	q.t.Helper()
	_, err := client.Start(q.ctx, q.Client, work.Visitor, id, booths)
	q.must(err)
}

// stand waits for a state of a limit, and restarts processes that have died.
func (q *queueing) stand(name string, yes func(limiter.Stats) bool) {
	q.t.Helper()
	var s limiter.Stats
	defer func() {
		if q.t.Failed() {
			q.t.Logf("%s: %+v; in %v", name, s, q.came(name+"-in"))
		}
	}()
	q.until(name+" has the expected state", func() bool {
		s = q.stats(name)
		return yes(s)
	})
}

// stats reads a limit, where there are never more than its places; the zero value while Redis is away.
func (q *queueing) stats(name string) limiter.Stats {
	q.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	s, _, err := q.gates.Stats(ctx, name)
	if err != nil {
		return limiter.Stats{}
	}
	if s.Active > max(work.Places, q.over[name]) && !q.forgot {
		q.over[name] = s.Active // reported once
		q.t.Errorf("%d are in at %s, which has %d places", s.Active, name, work.Places)
	}
	return s
}

func (q *queueing) order(name string) []limiter.Waiter {
	q.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	all, err := q.gates.Waiters(ctx, name, 0, 1000)
	q.must(err)
	return all
}

// came returns the first line of each call that was admitted, named as a limit does: instance and place.
func (q *queueing) came(in string) (all []string) {
	q.t.Helper()
	for _, l := range q.lines(in) {
		if who := place(l); !slices.Contains(all, who) {
			all = append(all, who)
		}
	}
	return all
}

func place(l []string) string {
	if l[0] == work.LobbyIn || l[0] == work.LobbyOut {
		return l[1]
	}
	return l[1] + " 1." + l[2]
}

// open releases the holders, so that the waiters are admitted.
func (q *queueing) open() {
	q.t.Helper()
	q.must(work.Ledger(q.ledger).Open())
}

// end waits until all calls were admitted, and checks everything.
func (q *queueing) end() {
	q.t.Helper()
	for i := range visitors {
		q.completed(q.visitorID(i), booths)
	}
	for i := range guests {
		q.completed(q.guestID(i), 2)
	}
	q.left(map[string]uint64{work.Booth.Name(): visitors * booths, work.Lobby.Name(): guests})
	q.check()
	if q.forgot {
		return
	}
	q.fair(work.Booth.Name(), work.BoothIn, work.BoothOut, func(w limiter.Waiter) string { return w.Instance + " " + w.Place })
	q.fair(work.Lobby.Name(), work.LobbyIn, work.LobbyOut, func(w limiter.Waiter) string { return w.Instance })
}

func (q *queueing) completed(id string, want int) {
	q.t.Helper()
	var event history.Event
	defer func() {
		if q.t.Failed() {
			q.t.Log(q.describe(id))
		}
	}()
	q.until(id+" has ended", func() bool {
		q.stats(work.Booth.Name())
		rec := q.Record(id)
		if rec == nil || !rec.Status.Ended() {
			return false
		}
		var err error
		event, err = rec.EndEvent()
		q.must(err)
		return true
	})
	c, ok := event.(*history.Completed)
	if !ok {
		q.t.Errorf("%s ended with %T %+v", id, event, event)
		return
	}
	if got, err := author.Result(work.Visitor).Decode(c.Result); err != nil || got != want {
		q.t.Errorf("%s gave %d (%v), want %d", id, got, err, want)
	}
}

// left checks that all slots are released soon, and that no call was counted twice at its limit.
func (q *queueing) left(came map[string]uint64) {
	q.t.Helper()
	began := time.Now()
	for name, n := range came {
		var s limiter.Stats
		q.stand(name, func(now limiter.Stats) bool {
			s = now
			return s.TotalEnqueued > 0 && s.Active == 0 && s.QueueLength == 0
		})
		if took := time.Since(began); took > leakedFor && !q.forgot {
			q.t.Errorf("%s: a slot was not released for %v after all instances had ended", name, took)
		}
		if s.TotalEnqueued < n && !q.forgot || s.TotalEnqueued != s.TotalCompleted+s.Withdrawn || s.TimedOut+s.Cleared+s.Rejected != 0 {
			q.t.Errorf("%s: %d calls, and the limit reports %+v", name, n, s)
		}
		for _, err := range q.gates.Check(q.ctx, name) {
			q.t.Errorf("invariant broken: %v", err)
		}
	}
}

// fair checks that no call has overtaken another, and that there were never more holders than slots, as the activities have written it
// to the ledger. All calls before one that is admitted were admitted before it: they hold a slot, have held one, or are on their
// way with one. So the holders and those on their way are no more than the slots.
func (q *queueing) fair(name, in, out string, as func(limiter.Waiter) string) {
	q.t.Helper()
	rank := make(map[string]int)
	for i, w := range q.orders[name] {
		rank[as(w)] = i
	}
	upTo, come := 0, make(map[string]bool)
	inside := make(map[string]bool)
	for _, l := range q.lines(in, out) {
		who := place(l)
		if l[0] == out {
			delete(inside, who)
			continue
		}
		inside[who] = true
		if r, waited := rank[who]; waited {
			come[who] = true
			upTo = max(upTo, r+1)
		}
		if late := upTo - len(come); len(inside)+late > work.Places {
			q.t.Errorf("%s, number %d of the queue of %s, came when %d before it had not, and %v were in; there are %d places",
				who, rank[who]+1, name, late, slices.Collect(maps.Keys(inside)), work.Places)
			return
		}
	}
	if len(come) != len(rank) {
		q.t.Errorf("%s: %d had waited, and %d of them came", name, len(rank), len(come))
	}
}
