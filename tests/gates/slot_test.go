package gates

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

func slots() []promise {
	return []promise{
		{"an instance that is cancelled while its activity waits leaves the queue", givenUp},
		{"an activity whose call is cancelled leaves the queue", takenBack},
		{"an activity that is cancelled releases its slot", letGo},
		{"an activity whose worker is killed keeps its slot and its turn", killed},
		{"an activity that kills every worker releases its slot", poison},
		{"an activity whose instance is purged releases its slot", purged},
		{"the time of an attempt begins when it is admitted", timed},
		{"the time of a call begins when it is made", hurried},
		{"a retained slot is released when its call is cancelled", keptAndCancelled},
		{"a retained slot is released when its instance is purged", keptAndPurged},
		{"a retry queues anew", requeued},
		{"a retry that keeps its slot goes on before the others", kept},
		{"a completion of an action without a queue is nothing", unlimited},
	}
}

func givenUp(a *arena) {
	first := a.held("given-up")
	a.visit("given-up-2", one("given-up", Visit{}))
	a.queued("given-up", 1)
	third := a.visit("given-up-3", one("given-up", Visit{}))
	a.queued("given-up", 2)
	a.must(a.client.Cancel(a.ctx, "given-up-2", "not needed any more"))
	a.status("given-up-2", client.Cancelled)
	a.queued("given-up", 1)
	a.open("given-up")
	a.results(first, "ok")
	a.results(third, "ok")
	a.once("given-up", "given-up-2")
	a.over("given-up", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 2, Withdrawn: 1})
}

func takenBack(a *arena) {
	first := a.held("taken-back")
	second := a.visit("taken-back-2", Crowd{Action: "taken-back", Visits: make([]Visit, 1), Deadline: 200 * time.Millisecond})
	a.results(second, "cancelled")
	a.once("taken-back", "taken-back-2")
	a.queued("taken-back", 0)
	a.open("taken-back")
	a.results(first, "ok")
	a.over("taken-back", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 1, Withdrawn: 1})
}

func letGo(a *arena) {
	a.held("let-go")
	second := a.visit("let-go-2", one("let-go", Visit{}))
	a.queued("let-go", 1)
	a.must(a.client.Cancel(a.ctx, "let-go-held", "not needed any more"))
	a.results(second, "ok")
	a.status("let-go-held", client.Cancelled)
	a.over("let-go", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

func killed(a *arena) {
	victim := a.member(settings{Role: "worker", Name: "victim", Only: "killed", TTL: 3 * time.Second})
	runs := []*client.Instance[[]string]{a.held("killed")}
	for i, id := range []string{"killed-2", "killed-3"} {
		runs = append(runs, a.visit(id, one("killed", Visit{})))
		a.queued("killed", i+1)
	}
	before, err := a.gates.Holders(a.ctx, "killed", 10)
	a.must(err)
	a.member(settings{Role: "worker", Name: "successor", Only: "killed", TTL: 10 * time.Second})
	victim.Kill()
	found := a.until("killed", 2)
	if l := found[1]; l.Instance != "killed-held" || l.Claim < 2 {
		a.Errorf("its worker was killed, and then came %+v", l)
	}
	after, err := a.gates.Holders(a.ctx, "killed", 10)
	a.must(err)
	if len(before) != 1 || !slices.Equal(before, after) {
		a.Errorf("in were %v, and then %v", before, after)
	}
	a.queued("killed", 2)
	a.open("killed")
	for _, run := range runs {
		a.results(run, "ok")
	}
	if got := strings.Join(sequence(a.book.entered(a.T, "killed")), " "); got != "killed-held killed-held killed-2 killed-3" {
		a.Errorf("they came as %s", got)
	}
	a.never("killed", 1)
	a.over("killed", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
}

func poison(a *arena) {
	deadly := a.member(settings{Role: "worker", Name: "deadly", Only: "poison", TTL: 2 * time.Second})
	first := a.visit("poison-1", one("poison", Visit{Kills: true}))
	a.queued("poison", 0)
	a.until("poison", 1)
	second := a.visit("poison-2", one("poison", Visit{}))
	for range maxClaims - 1 {
		<-deadly.Ended()
		a.queued("poison", 1)
		deadly.Start()
	}
	<-deadly.Ended() // the last it may kill: the slot is free when the lease expires
	deadly.Start()
	a.results(second, "ok")
	if got, err := result(a, first); err != nil || len(got) != 1 || got[0] == "ok" {
		a.Errorf("a poison gave %q (%v)", got, err)
	}
	if got := strings.Join(sequence(a.book.entered(a.T, "poison")), " "); got != strings.Repeat("poison-1 ", maxClaims)+"poison-2" {
		a.Errorf("they came as %s", got)
	}
	a.over("poison", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

func purged(a *arena) {
	a.held("purged")
	a.visit("purged-2", one("purged", Visit{}))
	a.queued("purged", 1)
	third := a.visit("purged-3", one("purged", Visit{}))
	a.queued("purged", 2)
	a.must(a.client.Purge(a.ctx, "purged-2", client.Force()))
	a.queued("purged", 1)
	a.must(a.client.Purge(a.ctx, "purged-held", client.Force()))
	a.results(third, "ok")
	a.over("purged", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 2, Withdrawn: 1})
}

func timed(a *arena) {
	const limit = 1500 * time.Millisecond
	first := a.held("timed")
	second := a.visit("timed-2", Crowd{Action: "timed", Visits: make([]Visit, 1), Attempt: limit})
	a.stand("timed", "a waiter has waited for longer than it may run", func(s limiter.Stats) bool {
		return s.OldestEnqueuedAt > 0 && time.Since(time.UnixMilli(s.OldestEnqueuedAt)) > limit+100*time.Millisecond
	})
	a.open("timed")
	a.results(second, "ok")
	a.results(first, "ok")
	third := a.visit("timed-3", Crowd{Action: "timed", Visits: []Visit{{Dwell: time.Hour}}, Attempt: 300 * time.Millisecond})
	a.results(third, "timeout")
	a.over("timed", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
}

func hurried(a *arena) {
	first := a.held("hurried")
	a.results(a.visit("hurried-2", Crowd{Action: "hurried", Visits: make([]Visit, 1), Within: 300 * time.Millisecond}), "timeout")
	a.once("hurried", "hurried-2")
	a.open("hurried")
	a.results(first, "ok")
	a.over("hurried", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 1, Withdrawn: 1})
}

// paused has an instance fail that keeps its slot for an hour, in front of a waiter.
func (a *arena) paused(action string) *client.Instance[[]string] {
	a.Helper()
	a.visit(action+"-1", Crowd{Action: action, Visits: []Visit{{Fails: 1}}, Retry: 2, Pause: time.Hour, Keep: true})
	a.describe(action+"-1", "rests", func(d client.Description) bool { return d.Timers == 1 })
	second := a.visit(action+"-2", one(action, Visit{}))
	a.queued(action, 1)
	return second
}

func keptAndCancelled(a *arena) {
	second := a.paused("kept-and-cancelled")
	a.must(a.client.Cancel(a.ctx, "kept-and-cancelled-1", "not needed any more"))
	a.results(second, "ok")
	a.over("kept-and-cancelled", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

func keptAndPurged(a *arena) {
	second := a.paused("kept-and-purged")
	a.must(a.client.Purge(a.ctx, "kept-and-purged-1", client.Force()))
	a.results(second, "ok")
	a.over("kept-and-purged", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

// retried has an instance fail in front of a waiter, with a long enough backoff for the waiter to be admitted in between.
func (a *arena) retried(action string, keep bool, want ...string) {
	a.Helper()
	first := a.held(action)
	tired := a.visit(action+"-tired", Crowd{Action: action, Visits: []Visit{{Fails: 2}}, Retry: 3, Pause: 300 * time.Millisecond, Keep: keep})
	a.queued(action, 1)
	fresh := a.visit(action+"-fresh", one(action, Visit{Hold: true}))
	a.queued(action, 2)
	a.out(action, 1)
	a.results(first, "ok")
	a.until(action, len(want)) // no activity is let out before
	a.out(action, 1)
	a.results(fresh, "ok")
	a.results(tired, "ok")
	got := sequence(a.book.entered(a.T, action))
	for i, id := range append([]string{"held"}, want...) {
		if i >= len(got) || got[i] != action+"-"+id {
			a.Errorf("they came as %v, want held and then %v", got, want)
		}
	}
	a.never(action, 1)
}

func requeued(a *arena) {
	a.retried("requeued", false, "tired", "fresh")
	a.over("requeued", limiter.Stats{TotalEnqueued: 5, TotalCompleted: 5})
}

func kept(a *arena) {
	a.retried("kept", true, "tired", "tired", "tired", "fresh")
	a.over("kept", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
}

// There is one orchestrator: it has a policy when the client that sets it has its answer. Another would have it within a second, and
// meanwhile admit callers.
func TestPolicyIsSetAndDeletedAtRunTime(t *testing.T) {
	t.Parallel()
	a := newArena(t, 1, settings{})
	early := a.crowds("free", 1, 3, Visit{Hold: true})[0]
	a.until("free", 3)
	if _, err := a.client.QueueStats(a.ctx, "free", ""); !errors.Is(err, client.ErrNotFound) {
		a.Errorf("a record of a limit that does not exist: %v", err)
	}
	a.must(a.client.SetPolicy(a.ctx, "action:free", client.Policy{Concurrency: 1}))
	var runs []*client.Instance[[]string]
	for _, id := range []string{"free-a", "free-b", "free-c"} {
		runs = append(runs, a.visit(id, one("free", Visit{Hold: true})))
	}
	a.queued("free", 2)
	a.until("free", 4)
	a.must(a.client.DeletePolicy(a.ctx, "action:free"))
	a.inForce("free", func(s limiter.Stats) bool { return s.QueueLength == 0 && s.Active == 3 })
	a.until("free", 6)
	runs = append(runs, a.visit("free-d", one("free", Visit{Hold: true}))) // which finds no limit
	a.until("free", 7)
	a.open("free")
	a.results(early, "ok", "ok", "ok")
	for _, run := range runs {
		a.results(run, "ok")
	}
	a.over("free", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
	a.check()
}

func unlimited(a *arena) {
	a.results(a.visit("alone-1", one("alone", Visit{})), "ok")
	for _, e := range events[*history.ActivityScheduled](a, "alone-1", 1) {
		if e.Limit != nil {
			a.Errorf("event %d has a limit: %+v", e.ID, e.Limit)
		}
	}
	if _, err := a.client.QueueStats(a.ctx, "alone", ""); !errors.Is(err, client.ErrNotFound) {
		a.Errorf("a record of a limit that does not exist: %v", err)
	}
	keys, err := a.book.rdb.Keys(a.ctx, "pawl:{"+namespace+".l.alone*").Result()
	a.must(err)
	if len(keys) > 0 {
		a.Errorf("keys of a limit that does not exist: %v", keys)
	}
}

func TestRunTimePolicyTakesPrecedenceAtEachLevel(t *testing.T) {
	t.Parallel()
	a := newArena(t, 1, settings{Global: 2})
	unlimited := client.Policy{}
	for _, name := range []string{"crowd", "mark"} {
		a.must(a.client.SetPolicy(a.ctx, "action:"+name, unlimited))
	}
	names := []string{"own", "of-few", "of-empty", "of-none"}
	var runs []*client.Instance[[]string]
	for _, name := range names {
		runs = append(runs, a.crowds(name, 1, 9, Visit{Hold: true})...)
	}
	in := []int{0, 0, 0, 0} // a holder is not evicted
	want := func(what string, limits ...int) {
		t.Helper()
		for i, name := range names {
			in[i] = max(in[i], limits[i])
			a.inForce(name, func(s limiter.Stats) bool { return s.MaxConcurrent == limits[i] && s.Active == in[i] })
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	set := func(level string, n uint32) {
		t.Helper()
		a.must(a.client.SetPolicy(a.ctx, level, client.Policy{Concurrency: n}))
	}
	remove := func(level string) {
		t.Helper()
		a.must(a.client.DeletePolicy(a.ctx, level))
	}
	want("as the code declares", 5, 3, 2, 2)
	set("global", 4)
	want("the global level was set", 5, 3, 4, 4)
	set("group:empty", 6)
	want("a group that had none was set", 5, 3, 6, 4)
	set("group:few", 7)
	want("a group was set", 5, 7, 6, 4)
	set("action:own", 8)
	want("an action was set", 8, 7, 6, 4)
	remove("action:own")
	want("an action was deleted", 5, 7, 6, 4)
	remove("group:few")
	want("a group was deleted", 5, 3, 6, 4)
	remove("group:empty")
	want("a group that had none was deleted", 5, 3, 4, 4)
	remove("global")
	want("the global level was deleted", 5, 3, 2, 2)
	if all, err := a.client.Policies(a.ctx); err != nil || len(all) != 2 {
		t.Errorf("the policies that are set: %+v (%v)", all, err)
	}
	if err := a.client.DeletePolicy(a.ctx, "global"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	for i, name := range names {
		a.open(name)
		a.results(runs[i], slices.Repeat([]string{"ok"}, 9)...)
		a.over(name, limiter.Stats{TotalEnqueued: 9, TotalCompleted: 9})
	}
	a.check()
}
