package fold_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// numbered assigns ids from one, and to each event a time of ten times its id.
func numbered(events ...history.Event) []history.Event {
	for i, e := range events {
		e.Meta().ID, e.Meta().At = uint64(i+1), int64(i+1)*10
	}
	return events
}

func start() history.Event    { return &history.Started{Name: "o"} }
func schedule() history.Event { return &history.ActivityScheduled{Name: "a"} }
func done(id uint64) history.Event {
	return &history.ActivityCompleted{Scheduled: id}
}

func TestCompleteHistoryHasNoViolation(t *testing.T) {
	s, bad := fold.Check(numbered(
		start(), schedule(), schedule(), schedule(), &history.TimerScheduled{FireAt: 500}, &history.TimerScheduled{FireAt: 400},
		done(2), &history.ActivityFailed{Scheduled: 3}, &history.ActivityCancelRequested{Scheduled: 4, Reason: cancel.LostSelect},
		&history.TimerFired{Timer: 6}, &history.TimerCancelled{Timer: 5}, &history.EventReceived{Name: "e"},
		&history.CancelRequested{By: "ops"}, &history.Cancelled{},
	))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	if s.Len != 14 || s.End == nil || s.Cancel.By != "ops" || s.OutstandingLen() != 0 || s.TimerLen() != 0 {
		t.Fatalf("%+v", s)
	}
	if s.Now != 130 { // the end is a decision, and does not advance Now
		t.Fatalf("now %d", s.Now)
	}
}

func child() *history.ChildScheduled {
	return &history.ChildScheduled{Name: "c", Instance: "o~1-2", Effect: "e"}
}

func TestMessageIsPendingUntilAcked(t *testing.T) {
	abandoned, detached := child(), child()
	abandoned.Abandon, detached.Detached = true, true
	s, bad := fold.Check(numbered(
		&history.Started{Name: "o", Parent: &history.Parent{Instance: "p"}}, child(), &history.EventSent{Instance: "q"}, detached,
		child(), abandoned, &history.ChildCompleted{Scheduled: 2, Effect: "e"}, &history.ChildCancelRequested{Scheduled: 5},
		&history.PatchMarked{Name: "m"},
	))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	if got := s.Children(); !slices.Equal(got, []uint64{6}) || s.ChildLen() != 1 {
		t.Errorf("outstanding children %v", got)
	}
	pending := func() (ids []uint64) {
		for _, m := range s.PendingMessages() {
			ids = append(ids, m.ID)
		}
		return ids
	}
	if got := pending(); !slices.Equal(got, []uint64{3, 4, 6, 8}) || s.PendingMessages()[3].Cancel == nil {
		t.Errorf("pending %v", got)
	}
	s.TrimAcked(6)
	end := &history.Completed{}
	end.ID = s.Len + 1
	if err := s.Apply(end); err != nil {
		t.Fatal(err)
	}
	if got := pending(); !slices.Equal(got, []uint64{8, 10}) || s.ChildLen() != 0 {
		t.Errorf("pending at the end %v, %d children", got, s.ChildLen())
	}
}

func TestContinueAsNewReportsNothingToParent(t *testing.T) {
	s, bad := fold.Check(numbered(&history.Started{Name: "o", Parent: &history.Parent{Instance: "p"}}, &history.ContinuedAsNew{}))
	if len(bad) > 0 || s.End == nil || len(s.PendingMessages()) != 0 {
		t.Fatal(bad, s.End, s.PendingMessages())
	}
}

func TestEveryRuleHasItsViolation(t *testing.T) {
	for what, c := range map[string]struct {
		events []history.Event
		at     uint64
		rule   string
	}{
		"no start":                  {numbered(schedule(), schedule())[:1], 1, "must be the first"},
		"two starts":                {numbered(start(), start(), schedule()), 2, "only the first"},
		"a gap":                     {append(numbered(start(), schedule(), schedule(), done(2))[:2], numbered(start(), schedule(), schedule(), done(2))[3]), 4, "not dense"},
		"an outstanding child":      {numbered(start(), child(), &history.ContinuedAsNew{})[:3], 3, "child 2 outstanding"},
		"a child of another effect": {numbered(start(), child(), &history.ChildFailed{Scheduled: 2, Effect: "f"}, schedule())[:3], 3, "another effect"},
		"a child ended twice":       {numbered(start(), child(), &history.ChildCompleted{Scheduled: 2, Effect: "e"}, &history.ChildCancelRequested{Scheduled: 2}), 4, "cancels child 2"},
		"after the end":             {numbered(start(), &history.Completed{}, schedule()), 3, "follows the end, event 2"},
		"never scheduled":           {numbered(start(), done(7), schedule()), 2, "completes activity 7"},
		"completed twice":           {numbered(start(), schedule(), done(2), done(2), schedule()), 4, "completes activity 2"},
		"failed after completion":   {numbered(start(), schedule(), done(2), &history.ActivityFailed{Scheduled: 2}), 4, "fails activity 2"},
		"cancelled, then done": {
			numbered(start(), schedule(), &history.ActivityCancelRequested{Scheduled: 2}, done(2), &history.Completed{}), 4, "completes activity 2",
		},
		"no timer":                         {numbered(start(), &history.TimerFired{Timer: 2}), 2, "fires timer 2"},
		"fired twice":                      {numbered(start(), &history.TimerScheduled{}, &history.TimerFired{Timer: 2}, &history.TimerFired{Timer: 2}), 4, "fires timer 2"},
		"cancelled timer":                  {numbered(start(), &history.TimerScheduled{}, &history.TimerFired{Timer: 2}, &history.TimerCancelled{Timer: 2}), 4, "cancels timer 2"},
		"ends with outstanding activities": {numbered(start(), schedule(), &history.Completed{}), 3, "1 activities outstanding"},
	} {
		_, bad := fold.Check(c.events)
		var v *fold.Violation
		if len(bad) != 1 || !errors.As(bad[0], &v) || v.EventID != c.at || !strings.Contains(v.Rule, c.rule) {
			t.Errorf("%s: %v", what, bad)
		}
	}
}

func TestRejectedEventChangesNothing(t *testing.T) {
	s, bad := fold.Check(numbered(start(), schedule(), &history.TimerScheduled{FireAt: 9}))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	rejected := &history.Completed{}
	rejected.ID, rejected.At = 4, 1000
	if err := s.Apply(rejected); err == nil {
		t.Fatal("an end with an activity outstanding")
	}
	if s.Len != 3 || s.End != nil || s.Now != 10 || !slices.Equal(s.Outstanding(), []uint64{2}) || s.Activity(2) == nil || s.TimerLen() != 1 {
		t.Fatalf("%+v", s)
	}
}

func TestNowIsMonotonic(t *testing.T) {
	events := numbered(start(), &history.EventReceived{}, &history.EventReceived{})
	events[1].Meta().At, events[2].Meta().At = 5000, 20
	if s, _ := fold.Check(events); s.Now != 5000 {
		t.Fatalf("now %d", s.Now)
	}
}

func TestNextTimerIsEarliestThenFirstSet(t *testing.T) {
	s := &fold.State{}
	if _, ok := s.NextTimer(); ok {
		t.Fatal("a timer in an empty history")
	}
	for _, e := range numbered(start(), &history.TimerScheduled{FireAt: 70}, &history.TimerScheduled{FireAt: 50}, &history.TimerScheduled{FireAt: 50}) {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []uint64{3, 4, 2} {
		next, ok := s.NextTimer()
		if !ok || next.ID != want {
			t.Fatalf("%+v, want timer %d", next, want)
		}
		fired := &history.TimerFired{Timer: want}
		fired.ID = uint64(5 + i)
		if err := s.Apply(fired); err != nil {
			t.Fatal(err)
		}
	}
	if next, ok := s.NextTimer(); ok {
		t.Fatalf("%+v is left", next)
	}
}

func TestOutstandingIsScheduledMinusSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, open, timers := &fold.State{}, map[uint64]bool{}, map[uint64]int64{}
		pick := func(m []uint64) uint64 { return rapid.SampledFrom(m).Draw(t, "id") }
		keys := func() (a, b []uint64) {
			for id := range uint64(200) {
				if open[id] {
					a = append(a, id)
				}
				if _, ok := timers[id]; ok {
					b = append(b, id)
				}
			}
			return a, b
		}
		for id := uint64(1); id <= rapid.Uint64Range(1, 60).Draw(t, "length"); id++ {
			activities, running := keys()
			var e history.Event = &history.EventReceived{}
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case id == 1:
				e = start()
			case kind == 0:
				e, open[id] = schedule(), true
			case kind == 1:
				at := rapid.Int64Range(0, 9).Draw(t, "fire at")
				e, timers[id] = &history.TimerScheduled{FireAt: at}, at
			case kind == 2 && len(activities) > 0:
				a := pick(activities)
				e = rapid.SampledFrom([]history.Event{done(a), &history.ActivityFailed{Scheduled: a}, &history.ActivityCancelRequested{Scheduled: a}}).Draw(t, "end")
				delete(open, a)
			case kind == 3 && len(running) > 0:
				r := pick(running)
				e = rapid.SampledFrom([]history.Event{&history.TimerFired{Timer: r}, &history.TimerCancelled{Timer: r}}).Draw(t, "end")
				delete(timers, r)
			}
			e.Meta().ID = id
			if err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		activities, running := keys()
		if got := s.Outstanding(); len(got) != len(activities) || len(got) > 0 && !reflect.DeepEqual(got, activities) || s.OutstandingLen() != len(got) {
			t.Fatalf("outstanding %v, want %v", got, activities)
		}
		next, ok := s.NextTimer()
		if ok != (len(running) > 0) || s.TimerLen() != len(running) {
			t.Fatalf("timers %d, want %v", s.TimerLen(), running)
		}
		for _, r := range running {
			if timers[r] < next.FireAt || timers[r] == next.FireAt && r < next.ID {
				t.Fatalf("%+v before timer %d at %d", next, r, timers[r])
			}
		}
	})
}
