package limits

import (
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

func startsInOrder() []scenario {
	return []scenario{
		{"a waiting instance is pending, and runs only after the previous one has ended", hall},
		{"a purged pending instance leaves its limit", annex},
		{"a purged instance releases its slot", vault},
		{"the end of a parent withdraws its pending child from the limit", orphan},
		{"a deadlock is reported, and ends after the maximum wait", deadlock},
		{"a deadlock through a descendant is detected", farDeadlock},
	}
}

func orphan(a *harness) {
	const hall = "orphan-hall"
	first := a.startHallHolder(hall)
	run, err := client.Start(a.ctx, a.client, host, "orphan-parent", Call{Name: hall, ID: "orphan", Leave: true})
	a.must(err)
	a.awaitWaiters(hall, 1)
	second := a.stay(hall, "orphan-hall-2", Stay{})
	a.awaitWaiters(hall, 2)
	a.must(client.Send(a.ctx, a.client, leave, "orphan-parent", pawl.None{}))
	a.wantResult(run, "left")
	a.status("orphan", client.Cancelled)
	a.awaitWaiters(hall, 1)
	a.wantOnlyHolder(hall)
	a.releaseAll(hall)
	a.wantResult(first, "ok")
	a.wantResult(second, "ok")
	a.awaitEmpty(hall, limiter.Stats{TotalEnqueued: 3, TotalCompleted: 2, Withdrawn: 1})
}

func hall(a *harness) {
	first := a.stay("hall", "hall-1", Stay{Hold: true, Again: 2})
	a.awaitEntries("hall", 1)
	second := a.stay("hall", "hall-2", Stay{})
	a.awaitWaiters("hall", 1)
	third := a.stay("hall", "hall-3", Stay{})
	a.awaitWaiters("hall", 2)
	a.stay("hall", "hall-3", Stay{}) // a repeated start has no effect
	d := a.status("hall-3", client.Pending)
	if len(d.LimitWaits) != 1 || d.LimitWaits[0].Event != 1 || d.LimitWaits[0].Action != "hall" || d.LimitWaits[0].Position != 2 || d.LimitWaits[0].Active != 1 {
		a.Errorf("hall-3 waits: %+v", d.LimitWaits)
	}
	a.status("hall-2", client.Pending)
	pending := map[string]bool{}
	for d, err := range a.client.List(a.ctx, client.ListOptions{Status: client.Pending}) {
		a.must(err)
		pending[d.Instance] = true
	}
	if !pending["hall-2"] || !pending["hall-3"] || pending["hall-1"] {
		a.Errorf("listed as pending: %v", pending)
	}

	a.must(a.client.Cancel(a.ctx, "hall-2", "no longer needed"))
	if got, err := result(a, second); errorNames(err) != "cancelled" {
		a.Errorf("hall-2 was cancelled while it waited, and returned %q, %v", got, err)
	}
	a.awaitWaiters("hall", 1)
	for execution := 2; execution <= 3; execution++ {
		a.release("hall", 1)
		a.awaitEntries("hall", execution) // it continues as a new execution
		if s := a.stats("hall"); s.Active != 1 || s.QueueLength != 1 {
			a.Errorf("execution %d: the limit is %+v", execution, s)
		}
		a.status("hall-3", client.Pending)
	}
	a.release("hall", 1)
	a.wantResult(first, "ok")
	a.wantResult(third, "ok")
	if got := strings.Join(sequence(a.recorder.entered(a.T, "hall")), " "); got != "hall-1 hall-1 hall-1 hall-3" {
		a.Errorf("entered in the order %s", got)
	}
	if all := events[history.Event](a, "hall-2", 1); len(all) != 3 {
		a.Errorf("hall-2 has not run, and has %d events", len(all))
	}
	if all := events[*history.Granted](a, "hall-3", 1); len(all) != 1 || all[0].Scheduled != 1 {
		a.Errorf("hall-3 was granted %+v", all)
	}
	a.awaitEmpty("hall", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 2, Withdrawn: 1})
}

func annex(a *harness) {
	first := a.stay("annex", "annex-1", Stay{Hold: true})
	a.awaitEntries("annex", 1)
	a.stay("annex", "annex-2", Stay{})
	a.awaitWaiters("annex", 1)
	third := a.stay("annex", "annex-3", Stay{})
	a.awaitWaiters("annex", 2)
	a.must(a.client.Purge(a.ctx, "annex-2", client.Force()))
	a.awaitWaiters("annex", 1)
	second := a.stay("annex", "annex-2", Stay{}) // its id is free again, and it is the last waiter
	a.awaitWaiters("annex", 2)
	a.releaseAll("annex")
	a.wantResult(first, "ok")
	a.wantResult(third, "ok")
	a.wantResult(second, "ok")
	if got := strings.Join(sequence(a.recorder.entered(a.T, "annex")), " "); got != "annex-1 annex-3 annex-2" {
		a.Errorf("entered in the order %s", got)
	}
	a.awaitEmpty("annex", limiter.Stats{TotalEnqueued: 4, TotalCompleted: 3, Withdrawn: 1})
}

func vault(a *harness) {
	a.stay("vault", "vault-1", Stay{Hold: true})
	a.awaitEntries("vault", 1)
	second := a.stay("vault", "vault-2", Stay{})
	a.awaitWaiters("vault", 1)
	a.must(a.client.Purge(a.ctx, "vault-1", client.Force()))
	a.wantResult(second, "ok")
	a.awaitEmpty("vault", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2})
}

func deadlock(a *harness)    { a.deadlocks("deadlock", Stay{Child: true}) }
func farDeadlock(a *harness) { a.deadlocks("far-deadlock", Stay{Far: true}) }

// deadlocks makes an instance wait for a descendant that needs the instance's slot.
func (a *harness) deadlocks(hall string, s Stay) {
	a.Helper()
	id, child := hall+"-1", hall+"-1-child"
	run := a.stay(hall, id, s)
	a.awaitStats(hall, "the deadlock is detected", func(s limiter.Stats) bool { return s.Deadlocked })
	d := a.status(child, client.Pending)
	if len(d.LimitWaits) != 1 || !d.LimitWaits[0].Deadlocked {
		a.Errorf("%s waits: %+v", child, d.LimitWaits)
	}
	if s, err := a.client.QueueStats(a.ctx, hall, ""); err != nil || !s.Deadlocked {
		a.Errorf("the statistics of the limit are %+v (%v)", s, err)
	}
	a.wantResult(run, "queue timeout")
	a.reported(hall)
	h, err := named(halls(), hall)
	a.must(err)
	refused(a, client.Attach(a.client, h, child), pawl.ErrQueueTimeout, client.Failed)
	a.wantResult(a.stay(hall, hall+"-2", Stay{}), "ok")
	a.awaitEmpty(hall, limiter.Stats{TotalEnqueued: 3, TotalCompleted: 2, TimedOut: 1})
}

// reported checks that a deadlock was counted and logged once by each owner of the limit. There may have been several owners, the later
// ones after the deadlock had occurred.
func (a *harness) reported(hall string) {
	a.Helper()
	found, logged := a.counts("pawl_limit_deadlocks_total,"+hall), 0
	for _, p := range a.fleets {
		got := 0
		for line := range strings.Lines(p.Log()) {
			if strings.Contains(line, "deadlocked") && strings.Contains(line, "limit="+hall+" ") {
				got++
			}
		}
		if got > 1 {
			a.Errorf("one orchestrator has logged the deadlock %d times", got)
		}
		logged += got
	}
	if logged == 0 || found != float64(logged) {
		a.Errorf("the deadlock was counted %v times and logged %d times", found, logged)
	}
}
