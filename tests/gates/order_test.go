package gates

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestLimitsHoldInTheWholeFleet(t *testing.T) {
	t.Parallel()
	a := newArena(t, 3, settings{})
	a.all(slices.Concat(orderly(), startsInOrder(), refusals(), slots()))
}

func orderly() []promise {
	return []promise{
		{"three wait, and each completion wakes exactly the next", three},
		{"a hundred that came through several orchestrators start in the order of their numbers", hundred},
		{"a thousand wait, the limit goes up and down, no holder is evicted and no waiter overtakes", thousand},
		{"two workers never run more activities than the limit", busy},
		{"actions and keys are independent", keyed},
		{"a hundred limits without former callers hold from the first call on", scattered},
		{"a rate is kept in every window", rated},
		{"a quota is kept from its first grant on", quota},
	}
}

// three also has nothing but its own waiters to decide the order of admission: each caller comes when the one before waits already.
func three(a *arena) {
	runs := []*client.Instance[[]string]{a.visit("three-0", one("three", Visit{Hold: true}))}
	a.until("three", 1)
	for i := 1; i <= 3; i++ {
		runs = append(runs, a.visit(fmt.Sprint("three-", i), one("three", Visit{Hold: true})))
		a.queued("three", i)
	}
	d := a.describe("three-3", "waits", func(d client.Description) bool { return len(d.LimitWaits) == 1 })
	if w := d.LimitWaits[0]; w.Action != "three" || w.Position != 3 || w.QueueLength != 3 || w.Active != 1 || w.Policy.Concurrency != 1 || w.Since.IsZero() || w.Deadlocked {
		a.Errorf("three-3 waits thus: %+v", w)
	}
	poll.Until(a.T, within, "it is measured that three wait and one is in", func() bool {
		return a.counts("pawl_limit_waiting,three") == 3 && a.counts("pawl_limit_active,three") == 1
	})
	if n := a.counts("pawl_limit_waited_total,three"); n != 3 {
		a.Errorf("it is counted that %v had to wait", n)
	}
	for i, run := range runs {
		a.out("three", 1)
		a.results(run, "ok")
		if i < 3 {
			a.until("three", i+2)
			if s := a.stats("three"); s.QueueLength != 2-i || s.Active != 1 {
				a.Errorf("%d have ended, and the limit has %+v", i+1, s)
			}
		}
	}
	if got := sequence(a.book.entered(a.T, "three")); !slices.Equal(got, []string{"three-0", "three-1", "three-2", "three-3"}) {
		a.Errorf("they came as %v", got)
	}
	a.never("three", 1)
	a.over("three", limiter.Stats{TotalEnqueued: 4, TotalCompleted: 4})
}

// crowds starts instances all at once, each with so many visits in one turn.
func (a *arena) crowds(action string, instances, each int, v Visit) (runs []*client.Instance[[]string]) {
	a.Helper()
	type started struct {
		run *client.Instance[[]string]
		err error
	}
	all := make(chan started, instances)
	for i := range instances {
		go func() {
			run, err := client.Start(a.ctx, a.client, crowds, fmt.Sprintf("%s-%d", action, i), Crowd{Action: action, Visits: slices.Repeat([]Visit{v}, each)})
			all <- started{run, err}
		}()
	}
	for range instances {
		s := <-all
		a.must(s.err)
		runs = append(runs, s.run)
	}
	return runs
}

func hundred(a *arena) {
	holder := a.visit("holder", one("hundred", Visit{Hold: true}))
	a.until("hundred", 1)
	runs := a.crowds("hundred", 20, 5, Visit{})
	a.queued("hundred", 100)
	order := a.order("hundred", 100)
	a.ownOrder(order)
	a.out("hundred", 1)
	a.results(holder, "ok")
	for _, run := range runs {
		a.results(run, slices.Repeat([]string{"ok"}, 5)...)
	}
	a.nobodyOvertook("hundred", order, 1)
	a.never("hundred", 1)
	a.over("hundred", limiter.Stats{TotalEnqueued: 101, TotalCompleted: 101})
}

// ownOrder demands that the visits of one instance stand in the order in which its code has made them.
func (a *arena) ownOrder(order []limiter.Waiter) {
	a.Helper()
	last := map[string]uint64{}
	for _, w := range order {
		var execution, event uint64
		if _, err := fmt.Sscanf(w.Place, "%d.%d", &execution, &event); err != nil {
			a.Fatal(err)
		}
		if event <= last[w.Instance] {
			a.Errorf("%s: event %d waits behind event %d", w.Instance, event, last[w.Instance])
		}
		last[w.Instance] = event
	}
}

// nobodyOvertook compares the entries with the order in the limit. Every waiter before an entering one was admitted before it:
// it is in, or has been, or its task is in transit, with a place each. So those that are in and those that are still to come make
// no more than the places; with one place the orders are the same.
func (a *arena) nobodyOvertook(room string, order []limiter.Waiter, places int) {
	a.Helper()
	rank := make(map[string]int)
	for i, w := range order {
		rank[w.Instance+" "+w.Place] = i
	}
	upTo, come := 0, 0
	for _, l := range a.book.entered(a.T, room) {
		if r, waited := rank[fmt.Sprintf("%s 1.%d", l.Instance, l.Event)]; waited {
			come++
			upTo = max(upTo, r+1)
		}
		if upTo-come+l.Inside > places {
			a.Fatalf("%+v came when %d before it in the queue had not, and %d were in; there are %d places", l, upTo-come, l.Inside, places)
		}
	}
	if come != len(order) {
		a.Errorf("%s: %d had waited, and %d of them came", room, len(order), come)
	}
}

func thousand(a *arena) {
	const room, level = "thousand", "action:thousand"
	runs := a.crowds(room, 50, 20, Visit{Hold: true})
	a.queued(room, 996)
	a.until(room, 4)
	order := a.order(room, 996)
	a.ownOrder(order)

	a.limit(level, 8, func(s limiter.Stats) bool { return s.Active == 8 && s.QueueLength == 992 })
	a.until(room, 8)

	a.limit(level, 2, func(s limiter.Stats) bool { return s.MaxConcurrent == 2 })
	if s := a.stats(room); s.Active != 8 || s.QueueLength != 992 {
		a.Errorf("the limit went down, and has %+v", s)
	}
	a.out(room, 6)
	a.stand(room, "two are left", func(s limiter.Stats) bool { return s.Active == 2 })
	a.out(room, 1)
	a.until(room, 9) // and not one more, which never checks
	if s := a.stats(room); s.Active != 2 || s.QueueLength != 991 || s.TotalCompleted != 7 {
		a.Errorf("seven have left, two may be in, and the limit has %+v", s)
	}
	a.limit(level, 8, func(s limiter.Stats) bool { return s.Active == 8 })
	a.open(room)
	for _, run := range runs {
		a.results(run, slices.Repeat([]string{"ok"}, 20)...)
	}
	a.nobodyOvertook(room, order, 8)
	a.never(room, 8)
	a.over(room, limiter.Stats{TotalEnqueued: 1000, TotalCompleted: 1000})
}

// limit sets a limit at run time, and demands that it comes into force without any other event: owners read policies every second.
func (a *arena) limit(level string, concurrency uint32, yes func(limiter.Stats) bool) {
	a.Helper()
	a.must(a.client.SetPolicy(a.ctx, level, client.Policy{Concurrency: concurrency}))
	a.inForce(strings.TrimPrefix(level, "action:"), yes)
}

func (a *arena) inForce(name string, yes func(limiter.Stats) bool) {
	a.Helper()
	began := time.Now()
	a.stand(name, "the policy is in force", yes)
	if took := time.Since(began); took > 10*time.Second { // nine of them for a machine that has much else to do
		a.Errorf("%s: the policy was in force after %v", name, took)
	}
}

func busy(a *arena) {
	runs := a.crowds("busy", 12, 4, Visit{Dwell: 3 * time.Millisecond})
	for _, run := range runs {
		a.results(run, "ok", "ok", "ok", "ok")
	}
	by := map[string]int{}
	for _, l := range a.book.entered(a.T, "busy") {
		by[l.Worker]++
	}
	if len(by) != 2 {
		a.Errorf("one worker has done it all: %v", by)
	}
	a.never("busy", 3)
	a.over("busy", limiter.Stats{TotalEnqueued: 48, TotalCompleted: 48})
}

func keyed(a *arena) {
	runs := []*client.Instance[[]string]{a.visit("red-1", one("keyed", Visit{Key: "red", Hold: true}))}
	a.until("keyed/red", 1)
	runs = append(runs, a.visit("red-2", one("keyed", Visit{Key: "red"})))
	a.queued("keyed/red", 1)
	runs = append(runs, a.visit("blue", one("keyed", Visit{Key: "blue", Hold: true})), a.visit("plain", one("keyed", Visit{Hold: true})))
	a.until("keyed/blue", 1)
	a.until("keyed", 1)

	runs = append(runs, a.visit("left-1", one("left", Visit{Hold: true})))
	a.until("left", 1)
	runs = append(runs, a.visit("left-2", one("left", Visit{})), a.visit("right", one("right", Visit{Hold: true})))
	a.queued("left", 1)
	a.until("right", 1)

	if s, err := a.client.QueueStats(a.ctx, "keyed", "red"); err != nil || s.Waiting != 1 || s.Active != 1 || s.Key != "red" || s.Policy.Concurrency != 1 {
		a.Errorf("the limit of red has %+v (%v)", s, err)
	}
	if n := len(a.book.entered(a.T, "keyed/red")); n != 1 {
		a.Errorf("%d have entered the room of red", n)
	}
	for _, room := range []string{"keyed/red", "keyed/blue", "keyed", "left", "right"} {
		a.open(room)
	}
	for _, run := range runs {
		a.results(run, "ok")
	}
	for name, n := range map[string]uint64{"keyed/red": 2, "keyed/blue": 1, "keyed": 1, "left": 2, "right": 1} {
		a.never(name, 1)
		a.over(name, limiter.Stats{TotalEnqueued: n, TotalCompleted: n})
	}
	for _, err := range a.client.Waiters(a.ctx, "keyed", "green") {
		if !errors.Is(err, client.ErrNotFound) {
			a.Errorf("the waiters of green: %v", err)
		}
	}
}

// scattered has every limit swept by the owner of its partition at the moment of its first call.
func scattered(a *arena) {
	const each, keys = 3, 100
	var runs []*client.Instance[[]string]
	for i := range 10 {
		c := Crowd{Action: "scattered"}
		for k := range keys / 10 {
			c.Visits = append(c.Visits, slices.Repeat([]Visit{{Key: fmt.Sprint(10*i + k), Dwell: 3 * time.Millisecond}}, each)...)
		}
		runs = append(runs, a.visit(fmt.Sprint("scattered-", i), c))
	}
	for _, run := range runs {
		a.results(run, slices.Repeat([]string{"ok"}, each*keys/10)...)
	}
	for k := range keys {
		name := fmt.Sprint("scattered/", k)
		if s := a.stats(name); s.MaxConcurrent != 1 {
			a.Errorf("%s has come to be without its limit: %+v", name, s)
		}
		a.never(name, 1)
		a.over(name, limiter.Stats{TotalEnqueued: each, TotalCompleted: each})
	}
}

func rated(a *arena) { a.windows("rated", 12, 5, 500) }
func quota(a *arena) { a.windows("quota", 5, 3, 1000) }

// windows lets more come than a window has room for. A grant is before the start of what was granted, and the first grant
// after this test has read the clock.
func (a *arena) windows(action string, n int, room, window int64) {
	a.Helper()
	now, err := a.book.rdb.Time(a.ctx).Result()
	a.must(err)
	run := a.visit(action+"-0", Crowd{Action: action, Visits: make([]Visit, n)})
	a.stand(action, "the rate admits no caller for now", func(s limiter.Stats) bool { return s.LimitedUntil > now.UnixMilli() && s.QueueLength > 0 })
	a.results(run, slices.Repeat([]string{"ok"}, n)...)
	for i, l := range a.book.entered(a.T, action) {
		if after := l.At - now.UnixMilli(); after < int64(i)/room*window {
			a.Errorf("number %d came after %d ms", i+1, after)
		}
	}
	a.over(action, limiter.Stats{TotalEnqueued: uint64(n), TotalCompleted: uint64(n)})
}

// schedules counts the attempts in a history.
func (a *arena) schedules(id string) uint64 {
	return uint64(len(events[*history.ActivityScheduled](a, id, 1)))
}
