package limits

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

func slots() []scenario {
	return []scenario{
		{"an instance that is cancelled while its activity waits leaves the limit", cancelledInstance},
		{"a waiting activity whose call is cancelled leaves its limit", cancelledWaiter},
		{"an activity that is cancelled releases its slot", cancelledHolder},
		{"an activity whose worker is killed keeps its slot, and the waiters their order", killed},
		{"an activity that kills every worker releases its slot", poison},
		{"an activity whose instance is purged releases its slot", purged},
		{"the time of an attempt begins when it is admitted", timed},
		{"the time of a call begins when it is made", hurried},
		{"a retained slot is released when its call is cancelled", keptAndCancelled},
		{"a retained slot is released when its instance is purged", keptAndPurged},
		{"a retry waits again", requeued},
		{"a retry that keeps its slot runs before the waiters", kept},
		{"a call of an action without a limit creates no limit", unlimited},
	}
}

func cancelledInstance(a *harness) {
	first := a.startHolder("cancelled-instance")
	a.visit("cancelled-instance-2", one("cancelled-instance", Visit{}))
	a.awaitWaiters("cancelled-instance", 1)
	third := a.visit("cancelled-instance-3", one("cancelled-instance", Visit{}))
	a.awaitWaiters("cancelled-instance", 2)
	a.must(a.client.Cancel(a.ctx, "cancelled-instance-2", "no longer needed"))
	a.status("cancelled-instance-2", client.Cancelled)
	a.awaitWaiters("cancelled-instance", 1)
	a.releaseAll("cancelled-instance")
	a.wantResults(first, "ok")
	a.wantResults(third, "ok")
	a.wantOneAttempt("cancelled-instance", "cancelled-instance-2")
	a.awaitEmpty("cancelled-instance", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 2, Withdrawn: 1})
}

func cancelledWaiter(a *harness) {
	first := a.startHolder("cancelled-waiter")
	second := a.visit("cancelled-waiter-2", Crowd{Action: "cancelled-waiter", Visits: make([]Visit, 1), Deadline: 200 * time.Millisecond})
	a.wantResults(second, "cancelled")
	a.wantOneAttempt("cancelled-waiter", "cancelled-waiter-2")
	a.awaitWaiters("cancelled-waiter", 0)
	a.releaseAll("cancelled-waiter")
	a.wantResults(first, "ok")
	a.awaitEmpty("cancelled-waiter", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 1, Withdrawn: 1})
}

func cancelledHolder(a *harness) {
	a.startHolder("cancelled-holder")
	second := a.visit("cancelled-holder-2", one("cancelled-holder", Visit{}))
	a.awaitWaiters("cancelled-holder", 1)
	a.must(a.client.Cancel(a.ctx, "cancelled-holder-held", "no longer needed"))
	a.wantResults(second, "ok")
	a.status("cancelled-holder-held", client.Cancelled)
	a.awaitEmpty("cancelled-holder", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

func killed(a *harness) {
	victim := a.member(settings{Role: "worker", Name: "victim", Only: "killed", TTL: 3 * time.Second})
	runs := []*client.Instance[[]string]{a.startHolder("killed")}
	for i, id := range []string{"killed-2", "killed-3"} {
		runs = append(runs, a.visit(id, one("killed", Visit{})))
		a.awaitWaiters("killed", i+1)
	}
	before, err := a.limits.Holders(a.ctx, "killed", 10)
	a.must(err)
	a.member(settings{Role: "worker", Name: "successor", Only: "killed", TTL: within})
	victim.Kill()
	found := a.awaitEntries("killed", 2)
	if l := found[1]; l.Instance != "killed-held" || l.Claim < 2 {
		a.Errorf("after its worker was killed: %+v", l)
	}
	after, err := a.limits.Holders(a.ctx, "killed", 10)
	a.must(err)
	if len(before) != 1 || !slices.Equal(before, after) {
		a.Errorf("holders %v, then %v", before, after)
	}
	a.awaitWaiters("killed", 2)
	a.releaseAll("killed")
	for _, run := range runs {
		a.wantResults(run, "ok")
	}
	// The lease of the victim may also have expired before the kill, so that it entered once more.
	if got := strings.Join(slices.Compact(sequence(a.recorder.entered(a.T, "killed"))), " "); got != "killed-held killed-2 killed-3" {
		a.Errorf("entered in the order %s", got)
	}
	a.wantMaxInside("killed", 1)
	a.awaitEmpty("killed", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
}

func poison(a *harness) {
	deadly := a.member(settings{Role: "worker", Name: "deadly", Only: "poison", TTL: 4 * time.Second})
	first := a.visit("poison-1", one("poison", Visit{Kills: true}))
	a.awaitWaiters("poison", 0)
	a.awaitEntries("poison", 1)
	second := a.visit("poison-2", one("poison", Visit{}))
	for range maxClaims - 1 {
		<-deadly.Ended()
		a.awaitWaiters("poison", 1)
		deadly.Start()
	}
	<-deadly.Ended() // the last worker that it may kill; the slot is free when the lease expires
	deadly.Start()
	a.wantResults(second, "ok")
	if got, err := result(a, first); err != nil || len(got) != 1 || got[0] == "ok" {
		a.Errorf("the poison activity returned %q (%v)", got, err)
	}
	if got := strings.Join(sequence(a.recorder.entered(a.T, "poison")), " "); got != strings.Repeat("poison-1 ", maxClaims)+"poison-2" {
		a.Errorf("entered in the order %s", got)
	}
	a.awaitEmpty("poison", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

func purged(a *harness) {
	a.startHolder("purged")
	a.visit("purged-2", one("purged", Visit{}))
	a.awaitWaiters("purged", 1)
	third := a.visit("purged-3", one("purged", Visit{}))
	a.awaitWaiters("purged", 2)
	a.must(a.client.Purge(a.ctx, "purged-2", client.Force()))
	a.awaitWaiters("purged", 1)
	a.must(a.client.Purge(a.ctx, "purged-held", client.Force()))
	a.wantResults(third, "ok")
	a.awaitEmpty("purged", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 2, Withdrawn: 1})
}

func timed(a *harness) {
	const limit = 8 * time.Second // the attempt needs a fraction of it, once it is admitted
	first := a.startHolder("timed")
	second := a.visit("timed-2", Crowd{Action: "timed", Visits: make([]Visit, 1), Attempt: limit})
	a.awaitStats("timed", "the wait exceeds the attempt timeout", func(s limiter.Stats) bool {
		return s.OldestEnqueuedAt > 0 && time.Since(time.UnixMilli(s.OldestEnqueuedAt)) > limit+100*time.Millisecond
	})
	a.releaseAll("timed")
	a.wantResults(second, "ok")
	a.wantResults(first, "ok")
	third := a.visit("timed-3", Crowd{Action: "timed", Visits: []Visit{{Dwell: time.Hour}}, Attempt: 300 * time.Millisecond})
	a.wantResults(third, "timeout")
	a.awaitEmpty("timed", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
}

func hurried(a *harness) {
	first := a.startHolder("hurried")
	a.wantResults(a.visit("hurried-2", Crowd{Action: "hurried", Visits: make([]Visit, 1), Within: 300 * time.Millisecond}), "timeout")
	a.wantOneAttempt("hurried", "hurried-2")
	a.releaseAll("hurried")
	a.wantResults(first, "ok")
	a.awaitEmpty("hurried", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 1, Withdrawn: 1})
}

// startRetaining starts an instance that fails and retains its slot for an hour, before a waiter.
func (a *harness) startRetaining(action string) *client.Instance[[]string] {
	a.Helper()
	a.visit(action+"-1", Crowd{Action: action, Visits: []Visit{{Fails: 1}}, Retry: 2, Pause: time.Hour, Keep: true})
	a.describe(action+"-1", "waits for its next attempt", func(d client.Description) bool { return d.Timers == 1 })
	second := a.visit(action+"-2", one(action, Visit{}))
	a.awaitWaiters(action, 1)
	return second
}

func keptAndCancelled(a *harness) {
	second := a.startRetaining("kept-and-cancelled")
	a.must(a.client.Cancel(a.ctx, "kept-and-cancelled-1", "no longer needed"))
	a.wantResults(second, "ok")
	a.awaitEmpty("kept-and-cancelled", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

func keptAndPurged(a *harness) {
	second := a.startRetaining("kept-and-purged")
	a.must(a.client.Purge(a.ctx, "kept-and-purged-1", client.Force()))
	a.wantResults(second, "ok")
	a.awaitEmpty("kept-and-purged", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

// retried runs an instance that fails before a waiter, with a backoff long enough for the waiter to be admitted in between.
func (a *harness) retried(action string, keep bool, want ...string) {
	a.Helper()
	first := a.startHolder(action)
	failing := a.visit(action+"-failing", Crowd{Action: action, Visits: []Visit{{Fails: 2}}, Retry: 3, Pause: 300 * time.Millisecond, Keep: keep})
	a.awaitWaiters(action, 1)
	fresh := a.visit(action+"-fresh", one(action, Visit{Hold: true}))
	a.awaitWaiters(action, 2)
	a.release(action, 1)
	a.wantResults(first, "ok")
	a.awaitEntries(action, len(want)) // before any other activity is released
	a.release(action, 1)
	a.wantResults(fresh, "ok")
	a.wantResults(failing, "ok")
	got := sequence(a.recorder.entered(a.T, action))
	for i, id := range append([]string{"held"}, want...) {
		if i >= len(got) || got[i] != action+"-"+id {
			a.Errorf("entered in the order %v, want held and then %v", got, want)
		}
	}
	a.wantMaxInside(action, 1)
}

func requeued(a *harness) {
	a.retried("requeued", false, "failing", "fresh")
	a.awaitEmpty("requeued", limiter.Stats{TotalEnqueued: 5, TotalCompleted: 5})
}

func kept(a *harness) {
	a.retried("kept", true, "failing", "failing", "failing", "fresh")
	a.awaitEmpty("kept", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
}

// With one orchestrator, a policy is in force when SetPolicy returns. Another orchestrator would apply it within a second, and admit
// callers until then.
func TestPolicyIsSetAndDeletedAtRunTime(t *testing.T) {
	t.Parallel()
	a := newHarness(t, 1, settings{})
	early := a.crowds("free", 1, 3, Visit{Hold: true})[0]
	a.awaitEntries("free", 3)
	if _, err := a.client.QueueStats(a.ctx, "free", ""); !errors.Is(err, client.ErrNotFound) {
		a.Errorf("a record of a limit that does not exist: %v", err)
	}
	a.must(a.client.SetPolicy(a.ctx, "action:free", client.Policy{Concurrency: 1}))
	var runs []*client.Instance[[]string]
	for _, id := range []string{"free-a", "free-b", "free-c"} {
		runs = append(runs, a.visit(id, one("free", Visit{Hold: true})))
	}
	a.awaitWaiters("free", 2)
	a.awaitEntries("free", 4)
	a.must(a.client.DeletePolicy(a.ctx, "action:free"))
	a.inForce("free", func(s limiter.Stats) bool { return s.QueueLength == 0 && s.Active == 3 })
	a.awaitEntries("free", 6)
	runs = append(runs, a.visit("free-d", one("free", Visit{Hold: true}))) // it is not limited
	a.awaitEntries("free", 7)
	a.releaseAll("free")
	a.wantResults(early, "ok", "ok", "ok")
	for _, run := range runs {
		a.wantResults(run, "ok")
	}
	a.awaitEmpty("free", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3})
	a.check()
}

func unlimited(a *harness) {
	a.wantResults(a.visit("alone-1", one("alone", Visit{})), "ok")
	for _, e := range events[*history.ActivityScheduled](a, "alone-1", 1) {
		if e.Limit != nil {
			a.Errorf("event %d has a limit: %+v", e.ID, e.Limit)
		}
	}
	if _, err := a.client.QueueStats(a.ctx, "alone", ""); !errors.Is(err, client.ErrNotFound) {
		a.Errorf("a record of a limit that does not exist: %v", err)
	}
	keys, err := a.recorder.rdb.Keys(a.ctx, "pawl:{"+namespace+".l.alone*").Result()
	a.must(err)
	if len(keys) > 0 {
		a.Errorf("keys of a limit that does not exist: %v", keys)
	}
}

func TestRunTimePolicyTakesPrecedenceAtEachLevel(t *testing.T) {
	t.Parallel()
	a := newHarness(t, 1, settings{Global: 2})
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
		a.releaseAll(name)
		a.wantResults(runs[i], slices.Repeat([]string{"ok"}, 9)...)
		a.awaitEmpty(name, limiter.Stats{TotalEnqueued: 9, TotalCompleted: 9})
	}
	a.check()
}
