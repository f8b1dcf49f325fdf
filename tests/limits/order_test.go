package limits

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
	a := newHarness(t, 3, settings{})
	a.runAll(slices.Concat(orderly(), startsInOrder(), refusals(), slots()))
}

func orderly() []scenario {
	return []scenario{
		{"three wait, and each completion admits exactly the next", three},
		{"a hundred callers of several orchestrators start in the order in which they wait", hundred},
		{"while a thousand wait, the limit is raised and lowered, no holder is evicted and no waiter overtakes", thousand},
		{"two workers never run more activities than the limit", busy},
		{"actions and keys are independent", keyed},
		{"a hundred new limits are enforced from the first call", scattered},
		{"a rate is not exceeded in any window", rated},
		{"a quota is not exceeded in any window", quota},
	}
}

// three determines the order of admission: each caller enters after the previous one waits.
func three(a *harness) {
	runs := []*client.Instance[[]string]{a.visit("three-0", one("three", Visit{Hold: true}))}
	a.awaitEntries("three", 1)
	for i := 1; i <= 3; i++ {
		runs = append(runs, a.visit(fmt.Sprint("three-", i), one("three", Visit{Hold: true})))
		a.awaitWaiters("three", i)
	}
	d := a.describe("three-3", "waits", func(d client.Description) bool { return len(d.LimitWaits) == 1 })
	if w := d.LimitWaits[0]; w.Action != "three" || w.Position != 3 || w.QueueLength != 3 || w.Active != 1 || w.Policy.Concurrency != 1 || w.Since.IsZero() || w.Deadlocked {
		a.Errorf("three-3 waits: %+v", w)
	}
	poll.Until(a.T, within, "the metrics report three waiters and one holder", func() bool {
		return a.counts("pawl_limit_waiting,three") == 3 && a.counts("pawl_limit_active,three") == 1
	})
	if n := a.counts("pawl_limit_waited_total,three"); n != 3 {
		a.Errorf("%v waits were counted, want 3", n)
	}
	for i, run := range runs {
		a.release("three", 1)
		a.wantResults(run, "ok")
		if i < 3 {
			a.awaitEntries("three", i+2)
			if s := a.stats("three"); s.QueueLength != 2-i || s.Active != 1 {
				a.Errorf("after %d ends the limit is %+v", i+1, s)
			}
		}
	}
	if got := sequence(a.recorder.entered(a.T, "three")); !slices.Equal(got, []string{"three-0", "three-1", "three-2", "three-3"}) {
		a.Errorf("entered in the order %v", got)
	}
	a.wantMaxInside("three", 1)
	a.awaitEmpty("three", limiter.Stats{TotalEnqueued: 4, TotalCompleted: 4})
}

// crowds starts instances concurrently, each with a number of calls in one turn.
func (a *harness) crowds(action string, instances, each int, v Visit) (runs []*client.Instance[[]string]) {
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

func hundred(a *harness) {
	holder := a.visit("holder", one("hundred", Visit{Hold: true}))
	a.awaitEntries("hundred", 1)
	runs := a.crowds("hundred", 20, 5, Visit{})
	a.awaitWaiters("hundred", 100)
	order := a.order("hundred", 100)
	a.wantProgramOrder(order)
	a.release("hundred", 1)
	a.wantResults(holder, "ok")
	for _, run := range runs {
		a.wantResults(run, slices.Repeat([]string{"ok"}, 5)...)
	}
	a.wantFIFO("hundred", order, 1)
	a.wantMaxInside("hundred", 1)
	a.awaitEmpty("hundred", limiter.Stats{TotalEnqueued: 101, TotalCompleted: 101})
}

// wantProgramOrder checks that the calls of each instance wait in the order in which its code made them.
func (a *harness) wantProgramOrder(order []limiter.Waiter) {
	a.Helper()
	last := map[string]uint64{}
	for _, w := range order {
		var execution, event uint64
		if _, err := fmt.Sscanf(w.Place, "%d.%d", &execution, &event); err != nil {
			a.Fatal(err)
		}
		if event <= last[w.Instance] {
			a.Errorf("%s: event %d waits after event %d", w.Instance, event, last[w.Instance])
		}
		last[w.Instance] = event
	}
}

// wantFIFO compares the entries with the order of the waiters. When a waiter enters, every waiter before it has been admitted: it is
// inside, has left, or its task is in transit, and occupies a slot unless it has left. So the number of activities inside plus the number
// of waiters before the last one that entered that have not entered yet is at most the number of slots. With one slot, both orders are
// equal.
func (a *harness) wantFIFO(room string, order []limiter.Waiter, slots int) {
	a.Helper()
	rank := make(map[string]int)
	for i, w := range order {
		rank[w.Instance+" "+w.Place] = i
	}
	upTo, entered := 0, 0
	for _, l := range a.recorder.entered(a.T, room) {
		if r, waited := rank[fmt.Sprintf("%s 1.%d", l.Instance, l.Event)]; waited {
			entered++
			upTo = max(upTo, r+1)
		}
		if upTo-entered+l.Inside > slots {
			a.Fatalf("%+v entered when %d waiters before it had not and %d activities were inside, with %d slots", l, upTo-entered, l.Inside, slots)
		}
	}
	if entered != len(order) {
		a.Errorf("%s: %d of %d waiters have entered", room, entered, len(order))
	}
}

func thousand(a *harness) {
	const room, level = "thousand", "action:thousand"
	runs := a.crowds(room, 50, 20, Visit{Hold: true})
	a.awaitWaiters(room, 996)
	a.awaitEntries(room, 4)
	order := a.order(room, 996)
	a.wantProgramOrder(order)

	a.limit(level, 8, func(s limiter.Stats) bool { return s.Active == 8 && s.QueueLength == 992 })
	a.awaitEntries(room, 8)

	a.limit(level, 2, func(s limiter.Stats) bool { return s.MaxConcurrent == 2 })
	if s := a.stats(room); s.Active != 8 || s.QueueLength != 992 {
		a.Errorf("after the concurrency was lowered: %+v", s)
	}
	a.release(room, 6)
	a.awaitStats(room, "two are left", func(s limiter.Stats) bool { return s.Active == 2 })
	a.release(room, 1)
	a.awaitEntries(room, 9) // wantMaxInside checks that there was no more than one
	if s := a.stats(room); s.Active != 2 || s.QueueLength != 991 || s.TotalCompleted != 7 {
		a.Errorf("after seven leaves with two slots: %+v", s)
	}
	a.limit(level, 8, func(s limiter.Stats) bool { return s.Active == 8 })
	a.releaseAll(room)
	for _, run := range runs {
		a.wantResults(run, slices.Repeat([]string{"ok"}, 20)...)
	}
	a.wantFIFO(room, order, 8)
	a.wantMaxInside(room, 8)
	a.awaitEmpty(room, limiter.Stats{TotalEnqueued: 1000, TotalCompleted: 1000})
}

// limit sets a policy at run time, and waits until it is in force without any other event: owners read policies every second.
func (a *harness) limit(level string, concurrency uint32, ok func(limiter.Stats) bool) {
	a.Helper()
	a.must(a.client.SetPolicy(a.ctx, level, client.Policy{Concurrency: concurrency}))
	a.inForce(strings.TrimPrefix(level, "action:"), ok)
}

func (a *harness) inForce(name string, ok func(limiter.Stats) bool) {
	a.Helper()
	began := time.Now()
	a.awaitStats(name, "the policy is in force", ok)
	if took := time.Since(began); took > 30*time.Second { // an idle machine needs one second
		a.Errorf("%s: the policy was in force after %v", name, took)
	}
}

// In busy, the first activities fill the limit before any leaves it; from then on the others enter as fast as they can.
func busy(a *harness) {
	runs := a.crowds("busy", 12, 4, Visit{Hold: true, Dwell: 3 * time.Millisecond})
	a.awaitWaiters("busy", 45)
	a.awaitEntries("busy", 3)
	a.releaseAll("busy")
	for _, run := range runs {
		a.wantResults(run, "ok", "ok", "ok", "ok")
	}
	by := map[string]int{}
	for _, l := range a.recorder.entered(a.T, "busy") {
		by[l.Worker]++
	}
	if len(by) != 2 {
		a.Errorf("only one worker ran activities: %v", by)
	}
	a.wantMaxInside("busy", 3)
	a.awaitEmpty("busy", limiter.Stats{TotalEnqueued: 48, TotalCompleted: 48})
}

func keyed(a *harness) {
	runs := []*client.Instance[[]string]{a.visit("red-1", one("keyed", Visit{Key: "red", Hold: true}))}
	a.awaitEntries("keyed/red", 1)
	runs = append(runs, a.visit("red-2", one("keyed", Visit{Key: "red"})))
	a.awaitWaiters("keyed/red", 1)
	runs = append(runs, a.visit("blue", one("keyed", Visit{Key: "blue", Hold: true})), a.visit("plain", one("keyed", Visit{Hold: true})))
	a.awaitEntries("keyed/blue", 1)
	a.awaitEntries("keyed", 1)

	runs = append(runs, a.visit("left-1", one("left", Visit{Hold: true})))
	a.awaitEntries("left", 1)
	runs = append(runs, a.visit("left-2", one("left", Visit{})), a.visit("right", one("right", Visit{Hold: true})))
	a.awaitWaiters("left", 1)
	a.awaitEntries("right", 1)

	if s, err := a.client.QueueStats(a.ctx, "keyed", "red"); err != nil || s.Waiting != 1 || s.Active != 1 || s.Key != "red" || s.Policy.Concurrency != 1 {
		a.Errorf("the limit of red: %+v (%v)", s, err)
	}
	if n := len(a.recorder.entered(a.T, "keyed/red")); n != 1 {
		a.Errorf("%d activities have entered the room of red", n)
	}
	for _, room := range []string{"keyed/red", "keyed/blue", "keyed", "left", "right"} {
		a.releaseAll(room)
	}
	for _, run := range runs {
		a.wantResults(run, "ok")
	}
	for name, n := range map[string]uint64{"keyed/red": 2, "keyed/blue": 1, "keyed": 1, "left": 2, "right": 1} {
		a.wantMaxInside(name, 1)
		a.awaitEmpty(name, limiter.Stats{TotalEnqueued: n, TotalCompleted: n})
	}
	for _, err := range a.client.Waiters(a.ctx, "keyed", "green") {
		if !errors.Is(err, client.ErrNotFound) {
			a.Errorf("the waiters of green: %v", err)
		}
	}
}

// In scattered, the owner of its partition may sweep each limit at the time of its first call.
func scattered(a *harness) {
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
		a.wantResults(run, slices.Repeat([]string{"ok"}, each*keys/10)...)
	}
	for k := range keys {
		name := fmt.Sprint("scattered/", k)
		if s := a.stats(name); s.MaxConcurrent != 1 {
			a.Errorf("%s has lost its policy: %+v", name, s)
		}
		a.wantMaxInside(name, 1)
		a.awaitEmpty(name, limiter.Stats{TotalEnqueued: each, TotalCompleted: each})
	}
}

func rated(a *harness) { a.windows("rated", 12, 5, 500) }
func quota(a *harness) { a.windows("quota", 5, 3, 1000) }

// windows makes more calls than a window allows. A grant precedes the start of its activity, and the first grant follows the time that is
// read here.
func (a *harness) windows(action string, n int, room, window int64) {
	a.Helper()
	now, err := a.recorder.rdb.Time(a.ctx).Result()
	a.must(err)
	run := a.visit(action+"-0", Crowd{Action: action, Visits: make([]Visit, n)})
	a.awaitStats(action, "the rate admits no caller for now, or has admitted all in the meantime", func(s limiter.Stats) bool {
		return s.LimitedUntil > now.UnixMilli() && s.QueueLength > 0 || s.TotalCompleted == uint64(n)
	})
	a.wantResults(run, slices.Repeat([]string{"ok"}, n)...)
	for i, l := range a.recorder.entered(a.T, action) {
		if after := l.At - now.UnixMilli(); after < int64(i)/room*window {
			a.Errorf("activity %d entered after %d ms", i+1, after)
		}
	}
	a.awaitEmpty(action, limiter.Stats{TotalEnqueued: uint64(n), TotalCompleted: uint64(n)})
}

// schedules returns the number of attempts in a history.
func (a *harness) schedules(id string) uint64 {
	return uint64(len(events[*history.ActivityScheduled](a, id, 1)))
}
