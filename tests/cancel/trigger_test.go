package cancel

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// trigger is one way to cancel an activity, with the expected records.
type trigger struct {
	how      string
	do       func(a *harness, id string) // called when the activity runs; nil: send Go
	reason   cancel.Reason
	by, text string
	attempts int          // number of attempts that run before that; 0: one
	end      history.Kind // last event of the instance; 0: it continues after the cancellation, and completes
	purged   bool         // no history is left
}

const freeText = "no longer needed: \"über\" budget\nsecond line"

func triggers() []trigger {
	const failed, completed = history.KindFailed, history.KindCompleted
	return []trigger{
		{
			how: "client", do: func(a *harness, id string) { a.must(a.Client.Cancel(a.ctx, id, freeText)) },
			reason: cancel.Requested, by: "ada", text: freeText, end: history.KindCancelled,
		},
		{how: "error", reason: cancel.OrchestrationFailed, end: failed},
		{how: "panic", reason: cancel.OrchestrationFailed, end: failed},
		{how: "limit", reason: cancel.OrchestrationFailed, end: failed},
		{how: "many", reason: cancel.OrchestrationFailed, end: failed},
		{how: "completes", reason: cancel.OrchestrationCompleted, end: completed},
		{how: "continues", reason: cancel.ContinuedAsNew, end: completed},
		{
			how: "purged", do: func(a *harness, id string) {
				a.must(a.Client.Purge(a.ctx, id, client.Force(), client.Reason("by mistake"), client.By("bob")))
			},
			reason: cancel.Purged, by: "bob", text: "by mistake", purged: true,
		},
		{how: "timer wins", reason: cancel.LostSelect},
		{how: "event wins", reason: cancel.LostSelect},
		{how: "activity wins", reason: cancel.LostSelect},
		{how: "nested", reason: cancel.LostSelect},
		{how: "sibling", reason: cancel.LostSelect},
		{how: "attempt", do: func(*harness, string) {}, reason: cancel.TimedOut, text: "attempt timed out after " + attemptTimeout.String(), end: completed},
		{how: "retried", attempts: 2, reason: cancel.LostSelect},
		{how: "by hand", reason: cancel.Requested, text: "changed my mind"},
		{how: "scope", reason: cancel.ScopeEnded, end: completed},
		{how: "detached", reason: cancel.ScopeEnded, text: "detached work ran for longer than 1ms"},
	}
}

func TestEveryTriggerRecordsRequesterAndReason(t *testing.T) {
	a := newHarness(t)
	a.worker("worker")
	t.Run("all", func(t *testing.T) {
		for _, tr := range triggers() {
			t.Run(tr.how, func(t *testing.T) {
				t.Parallel()
				tr.try(a.in(t))
			})
		}
	})
	a.check()
}

// in returns the harness for a subtest.
func (a *harness) in(t *testing.T) *harness {
	b := *a
	b.T, b.ctx = t, t.Context()
	return &b
}

func (tr trigger) try(a *harness) {
	id := "try-" + strings.ReplaceAll(tr.how, " ", "-")
	in, err := author.Input(Trial).Encode(Try{How: tr.how})
	a.start(Trial, id, in, err)
	attempts := max(tr.attempts, 1)
	a.await("began", id, attempts)
	if tr.do == nil {
		a.send(id)
	} else {
		tr.do(a, id)
	}
	ended := a.await("cancelled", id, attempts)
	tr.checkCause(a, ended[attempts-1])
	if tr.purged {
		return
	}
	recorded := a.cancellations(id, 1, attempts)[attempts-1]
	if recorded.Scheduled != ended[attempts-1].Activity || recorded.Reason != tr.reason || recorded.By != tr.by || !strings.HasPrefix(recorded.Text, tr.text) || recorded.Text != ended[attempts-1].Cause.Text {
		a.Errorf("the history has %+v, and the activity received %+v", recorded.ActivityCancelRequested, ended[attempts-1].Cause)
	}
	a.reported(id, 1, lease.Stopped)
	end := tr.end
	if end == 0 { // it continues
		a.send(id)
		end = history.KindCompleted
	}
	if got := a.ended(id); got.Kind() != end {
		a.Errorf("it ended with %T %+v", got, got)
	}
	for _, e := range a.history(id, 1) {
		if c, ok := e.Event.(*history.ActivityCompleted); ok && c.Scheduled == recorded.Scheduled {
			a.Errorf("a completion reached the orchestration: %+v", c)
		}
	}
}

// checkCause checks the cause that the activity received.
func (tr trigger) checkCause(a *harness, l line) {
	c := l.Cause
	if c == nil || !l.Canceled {
		a.Fatalf("the activity received %+v", l)
	}
	if c.Reason != tr.reason || c.By != tr.by || !strings.HasPrefix(c.Text, tr.text) || (tr.text == "") != (c.Text == "") {
		a.Errorf("the activity received %s by %q: %q; want %s by %q: %q", c.Reason, c.By, c.Text, tr.reason, tr.by, tr.text)
	}
	if after := l.At.Sub(c.At); after < -time.Millisecond || after > 15*time.Second { // a renewal may detect it only after 20 s
		a.Errorf("decided at %s and received at %s", c.At, l.At)
	}
}

// When a poison activity has failed its orchestration, the other activity of the orchestration is cancelled.
func TestPoisonActivityCancelsOtherActivities(t *testing.T) {
	t.Parallel()
	a := newHarness(t)
	a.worker("worker")
	poisoned := a.member(settings{Role: "worker", Name: "poisoned", TTL: 4 * time.Second, Only: []string{"poison"}})
	in, err := author.Input(Trial).Encode(Try{How: "poison"})
	a.start(Trial, "try-poison", in, err)
	for i := range maxClaims {
		<-poisoned.Ended()
		if i < maxClaims-1 {
			poisoned.Start()
		}
	}
	poisoned.Start() // reconciliation finds that the claims are exhausted, so this process is not killed
	tr := trigger{reason: cancel.OrchestrationFailed}
	tr.checkCause(a, a.await("cancelled", "try-poison", 1)[0])
	if f, ok := a.ended("try-poison").(*history.Failed); !ok || f.Failure.Code != history.CodePoison {
		t.Errorf("it ended with %+v", a.ended("try-poison"))
	}
	if recorded := a.cancellations("try-poison", 1, 1)[0]; recorded.Reason != cancel.OrchestrationFailed {
		t.Errorf("the history has %+v", recorded.ActivityCancelRequested)
	}
	a.check()
}
