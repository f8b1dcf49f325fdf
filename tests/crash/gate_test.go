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

// queueing is an arena whose instances queue: see package work. First they all stand in line, whatever is done to
// them, and nobody leaves; then the ledger is opened, and end waits until all have been in, and checks in which order they
// were, and with whom.
type queueing struct {
	*arena
	gates  *limiter.Limiter
	home   int                         // the Redis master of the instances, of several
	forgot bool                        // a Redis has: limits, and the order, may be broken for once
	over   map[string]int              // by gate; as many as were in at a time, if they were too many
	orders map[string][]limiter.Waiter // by gate; of those who waited when it was opened
}

const (
	visitors = 6 // instances
	booths   = 5 // that each of them wants to be in
	guests   = 6
)

// leakedFor is how long a slot may be lost, once all partitions have an owner.
const leakedFor = 5 * time.Second

func newQueueing(t *testing.T, s servers, env ...string) *queueing {
	t.Helper()
	a := newArena(t, s, append([]string{"FLEET_OWNER_TTL=600ms", "PAWL_LOOK=500ms"}, env...)...)
	run := redisx.NewRunner(a.rdb)
	t.Cleanup(run.Close)
	return &queueing{
		arena: a, orders: make(map[string][]limiter.Waiter), over: make(map[string]int),
		gates: limiter.New(run, redisx.NewSpace(a.ns), func(name string) int { return queue.PartitionOf(name, a.parts) }),
	}
}

func (q *queueing) visitorID(n int) string { return (&family{arena: q.arena}).at(q.home, "visitor", n) }
func (q *queueing) guestID(n int) string   { return (&family{arena: q.arena}).at(q.home, "guest", n) }

// begin starts everybody, and waits until all places are taken and everybody else stands in line.
func (q *queueing) begin() {
	q.t.Helper()
	q.join()
	for i := range visitors {
		q.visit(q.visitorID(i), booths)
	}
	for i := range guests {
		_, err := client.Start(q.ctx, q.client, work.Lobby, q.guestID(i), 0)
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
	_, err := client.Start(q.ctx, q.client, work.Visitor, id, booths)
	q.must(err)
}

// stand waits until a gate stands thus, and starts whoever has died.
func (q *queueing) stand(name string, yes func(limiter.Stats) bool) {
	q.t.Helper()
	var s limiter.Stats
	defer func() {
		if q.t.Failed() {
			q.t.Logf("%s: %+v; in %v", name, s, q.came(name+"-in"))
		}
	}()
	q.until(name+" stands as it should", func() bool {
		s = q.stats(name)
		return yes(s)
	})
}

// stats reads a gate, where there are never more than its places; the zero value while Redis is away.
func (q *queueing) stats(name string) limiter.Stats {
	q.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	s, _, err := q.gates.Stats(ctx, name)
	if err != nil {
		return limiter.Stats{}
	}
	if s.Active > max(work.Places, q.over[name]) && !q.forgot {
		q.over[name] = s.Active // said once
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

// came gives the first lines of everybody who has come, each named as a gate does: instance and place.
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

// open lets them go, and them in who wait.
func (q *queueing) open() {
	q.t.Helper()
	q.must(work.Ledger(q.ledger).Open())
}

// end waits until everybody has been in, and checks all of it.
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
		rec := q.record(id)
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

// left demands that all slots are given back soon, and that of those who came to each gate nobody was counted twice.
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
			q.t.Errorf("%s: a slot was not given back for %v after everybody had ended", name, took)
		}
		if s.TotalEnqueued < n && !q.forgot || s.TotalEnqueued != s.TotalCompleted+s.Withdrawn || s.TimedOut+s.Cleared+s.Rejected != 0 {
			q.t.Errorf("%s: %d were there, and the gate says %+v", name, n, s)
		}
		for _, err := range q.gates.Check(q.ctx, name) {
			q.t.Errorf("invariant broken: %v", err)
		}
	}
}

// fair demands that nobody has overtaken anybody, and that there were never more in than there are places, as they have written it
// down themselves. Who comes has all those before it in the queue let in before: they are in, or have been, or are on their
// way, with a place each. So those who are in and those who are still to come make no more than the places.
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
