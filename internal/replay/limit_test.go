package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func declared() *history.Declared {
	return &history.Declared{Action: &history.Policy{Concurrency: 3}, Group: "payments"}
}

func TestScheduleHasDeclaredLimits(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		for _, c := range []replay.Call{{}, {Declared: declared()}, {KeepSlot: true}} {
			c.Activity = "a"
			x.Call(c)
		}
		return get(x, x.Next("never", nil))
	})
	made := d.Start(text(""))
	lim := func(i int) *history.Limit { return made[i].(*history.ActivityScheduled).Limit }
	if g := lim(0); g != nil {
		t.Errorf("a limit without a policy: %+v", g)
	}
	if g := lim(1); g == nil || *g.Declared.Action != *declared().Action || g.Declared.Group != "payments" || g.Retain || g.Name != "" || g.Waiting {
		t.Errorf("%+v", g)
	}
	if g := lim(2); g == nil || *g != (history.Limit{Retain: true}) {
		t.Errorf("%+v", g)
	}
	d.CheckReplay()
}

func TestChangedLimitsInTheCodeAreNoDivergence(t *testing.T) {
	body := func(c replay.Call) replay.Program {
		return program(func(x *replay.Code) (string, error) {
			c.Activity, c.Retry = "a", replay.Retry{Attempts: 3, Initial: time.Second, Factor: 1, Max: time.Second}
			return get(x, x.Call(c))
		})
	}
	none, limited := body(replay.Call{}), body(replay.Call{Declared: declared(), KeepSlot: true})
	for name, p := range map[string][2]replay.Program{"limits added": {none, limited}, "limits removed": {limited, none}} {
		t.Run(name, func(t *testing.T) {
			d := replaytest.New(t, p[0], replay.Options{Strict: true})
			d.Limit("a", false)
			d.Start(text(""))
			d.Grant(2)
			d.Fail(2, oops)
			d.Fire()
			d.Deploy(p[1])
			d.Offer(&history.Granted{Scheduled: d.Only("a")})
			d.Fail(d.Only("a"), oops)
			d.Fire()
			d.Complete(d.Only("a"), text("ok"))
			wantResult(t, d, "ok")
			d.CheckRecord()
		})
	}
}

func TestRetainedSlotIsHeldFromTheFirstAttemptToTheLast(t *testing.T) {
	for name, backoff := range map[string]time.Duration{"with a backoff": time.Minute, "without a backoff": 0} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, calls(replay.Call{KeepSlot: true, AttemptTimeout: time.Hour, Retry: replay.Retry{Attempts: 5, Initial: backoff, Factor: 1, Max: backoff}}))
			d.Limit("a", true)
			d.Start(text(""))
			d.Limit("a", false)
			var fold fold.State
			folded, ticket := 0, d.History[1].(*history.ActivityScheduled).Effect
			holds := func(want bool) {
				t.Helper()
				for ; folded < len(d.History); folded++ {
					if err := fold.Apply(d.History[folded]); err != nil {
						t.Fatal(err)
					}
				}
				kept, released := fold.Tickets(), fold.TakeReleased()
				if want && (len(kept) != 1 || kept[0].ID != ticket || kept[0].Waiting || len(released) > 0) || !want && (len(kept) > 0 || len(released) != 1) {
					t.Fatalf("tickets %+v, released %+v:\n%s", kept, released, replaytest.Text(d.History))
				}
			}
			holds(true)
			for attempt := range 4 {
				if attempt%2 == 0 {
					d.Fail(d.Only("a"), oops)
				} else {
					d.Fire() // the attempt times out
				}
				holds(true)
				if backoff > 0 {
					d.Fire()
					holds(true)
				}
			}
			d.Complete(d.Only("a"), text("ok"))
			holds(false)
			wantResult(t, d, "ok")
		})
	}
}

func TestUnresolvedLimitBlocksNoCall(t *testing.T) {
	d := drive(t, calls(replay.Call{Declared: declared()}))
	made := d.Feed(&history.Started{Name: "test", Limit: &history.Limit{Declared: *declared(), Waiting: true}})
	wantKinds(t, made, history.KindActivityScheduled)
	if o, _ := d.Offer(&history.Granted{Scheduled: 1}); o != replay.DroppedLate {
		t.Errorf("a grant without a waiter is %s", o)
	}
}

func TestWaitingInstanceRunsNoCodeAndIsEvictedAndReplayed(t *testing.T) {
	runs := 0
	d := drive(t, func(x *replay.Code) (string, error) {
		runs++
		return x.Now().UTC().Format(time.TimeOnly), nil
	})
	d.Limit("test", false)
	d.Start(text(""))
	d.Send("e", text("1"))
	d.Deploy(program(func(x *replay.Code) (string, error) { // evicts and replays
		runs++
		return x.Now().UTC().Format(time.TimeOnly), nil
	}))
	if _, _, timer := d.X.NextTimer(); timer || runs > 0 || len(d.X.Outstanding()) > 0 || d.X.Ended() {
		t.Fatalf("the code ran %d times", runs)
	}
	d.Advance(time.Hour)
	d.Grant(1)
	if runs != 1 {
		t.Fatalf("the code ran %d times", runs)
	}
	wantResult(t, d, "23:13:20") // an hour after the epoch of the driver
	d.CheckRecord()
}

func TestWaitingInstanceMayReachTheLimitOfItsHistory(t *testing.T) {
	d := replaytest.New(t, program(func(*replay.Code) (string, error) { panic("it runs") }), replay.Options{Limits: replay.Limits{Events: 5}})
	d.Limit("test", false)
	d.Start(text(""))
	for !d.X.Ended() {
		d.Send("e", text("1"))
	}
	wantFailure(t, d, history.CodeTooLarge, "the history has reached its limit of 5 events; split the work over several instances")
	d.CheckRecord()
}

func TestGrantWithoutAWaiterIsADivergence(t *testing.T) {
	for name, events := range map[string][]history.Event{
		"an activity": {&history.Started{Name: "test"}, &history.ActivityScheduled{Name: "a"}, &history.Granted{Scheduled: 2}},
		"an instance": {&history.Started{Name: "test"}, &history.ActivityScheduled{Name: "a"}, &history.Granted{Scheduled: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replayWith(calls(replay.Call{}), replay.Options{}, numbered(events...))
			if want := "event 3: history has Granted of event "; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestInstanceRejectedBeforeItsStartReplaysToItsEnd(t *testing.T) {
	for name, end := range map[string]history.Event{
		"timed out": &history.Failed{Failure: history.Failure{Code: history.CodeQueueTimeout, Message: "it waited for an hour"}},
		"cleared":   &history.Cancelled{Failure: history.Failure{Code: history.CodeCancelled, Also: []string{history.CodeQueueCleared}}, Text: "its queue was cleared"},
	} {
		t.Run(name, func(t *testing.T) { replaysRejection(t, end) })
	}
}

func replaysRejection(t *testing.T, end history.Event) {
	t.Helper()
	events := numbered(
		&history.Started{Name: "test", Limit: &history.Limit{Name: "test", Ticket: "t", Waiting: true}},
		&history.EventReceived{Name: "e", Payload: text("1")}, end)
	code := func(*replay.Code) (string, error) { panic("it runs") }
	x, err := replayWith(code, replay.Options{Strict: true}, events)
	if err != nil || !x.Ended() || x.Len() != 3 {
		t.Fatalf("%v, %d events", err, x.Len())
	}
	if o, err := x.Apply(&history.Granted{Scheduled: 1}); o != replay.DroppedEnded || err != nil {
		t.Errorf("a grant after the end: %s, %v", o, err)
	}
	if err := (replaytest.Past{Program: program(code), Events: events}).CheckPrefixes(10); err != nil {
		t.Error(err)
	}
	events[0].(*history.Started).Limit = nil
	if _, err := replayWith(waitsFor("a"), replay.Options{}, events); err == nil {
		t.Error("an instance that does not wait is ended by its code")
	}
}
