package fold_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/pkg/history"
)

func callerAt(ticket string, waits bool) *history.Limit {
	return &history.Limit{Name: "g", Ticket: ticket, Waiting: waits}
}

func retained(ticket string) *history.Limit {
	return &history.Limit{Name: "g", Ticket: ticket, Retain: true}
}

func limited(g *history.Limit) history.Event { return &history.ActivityScheduled{Name: "a", Limit: g} }

func ids(ts []fold.Ticket) []string {
	var out []string
	for _, t := range ts {
		out = append(out, t.ID)
	}
	return out
}

func folded(t *testing.T, events ...history.Event) *fold.State {
	t.Helper()
	s, bad := fold.Check(numbered(events...))
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	return s
}

func checkTickets(t *testing.T, s *fold.State, tickets, released []string) {
	t.Helper()
	if got := ids(s.Tickets()); !slices.Equal(got, tickets) || s.TicketLen() != len(tickets) {
		t.Fatalf("tickets %q, want %q", got, tickets)
	}
	if got := ids(s.TakeReleased()); !slices.Equal(got, released) {
		t.Fatalf("released: %q, want %q", got, released)
	}
	if got := s.TakeReleased(); got != nil {
		t.Fatalf("released twice: %v", got)
	}
	for _, id := range tickets {
		if k, ok := s.Find(id); !ok || k.ID != id {
			t.Fatalf("%s is not found", id)
		}
	}
	for _, id := range released {
		if _, ok := s.Find(id); ok && !slices.Contains(tickets, id) {
			t.Fatalf("%s was released and is still found", id)
		}
	}
}

func TestTicketIsRequiredFromScheduleToEnd(t *testing.T) {
	s := folded(t, start(), limited(callerAt("x", false)), limited(callerAt("y", true)), limited(callerAt("z", true)), schedule(), done(2), &history.Granted{Scheduled: 3},
		&history.ActivityCancelRequested{Scheduled: 4})
	if got := s.Admitted(); !slices.Equal(got, []uint64{3, 5}) || s.WaitingLen() != 0 {
		t.Fatalf("admitted %d, waiting %d", got, s.WaitingLen())
	}
	checkTickets(t, s, []string{"y"}, []string{"x", "z"})
}

func TestWaitingActivityHasNoLease(t *testing.T) {
	s := folded(t, start(), limited(callerAt("x", true)), schedule())
	if got := s.Admitted(); !slices.Equal(got, []uint64{3}) || !s.Waiting(2) || s.WaitingLen() != 1 || s.OutstandingLen() != 2 {
		t.Fatalf("admitted %d, waiting %d", got, s.WaitingLen())
	}
}

func TestSetLimitIsFolded(t *testing.T) {
	s := folded(t, start(), schedule(), schedule())
	s.SetLimit(2, callerAt("x", true))
	s.SetLimit(3, nil)
	s.SetLimit(9, callerAt("none", true))
	if !s.Waiting(2) || s.Activity(2).Limit == nil || s.Waiting(3) {
		t.Fatalf("%+v", s.Activity(2))
	}
	checkTickets(t, s, []string{"x"}, nil)
}

func TestRetainedSlotPassesToNextAttempt(t *testing.T) {
	failed := &history.ActivityFailed{Scheduled: 2}
	s := folded(t, start(), limited(retained("x")), failed, &history.TimerScheduled{FireAt: 50, RetainsSlotOf: 2})
	checkTickets(t, s, []string{"x"}, nil)

	s = folded(t, start(), limited(retained("x")), &history.ActivityFailed{Scheduled: 2}, &history.TimerScheduled{FireAt: 50, RetainsSlotOf: 2},
		&history.TimerFired{Timer: 4}, limited(retained("x")))
	checkTickets(t, s, []string{"x"}, nil)
	if k, ok := s.Find("x"); !ok || k.Event != 6 || k.Waiting {
		t.Fatalf("%+v", k)
	}
}

func TestUnassignedSlotIsReleased(t *testing.T) {
	for what, events := range map[string][]history.Event{
		"no retry":            {&history.ActivityFailed{Scheduled: 2}},
		"backoff of another":  {&history.ActivityFailed{Scheduled: 2}, &history.TimerScheduled{FireAt: 50}},
		"backoff cancelled":   {&history.ActivityFailed{Scheduled: 2}, &history.TimerScheduled{FireAt: 50, RetainsSlotOf: 2}, &history.TimerCancelled{Timer: 4}},
		"no next attempt":     {&history.ActivityFailed{Scheduled: 2}, &history.TimerScheduled{FireAt: 50, RetainsSlotOf: 2}, &history.TimerFired{Timer: 4}},
		"instance ended":      {&history.ActivityFailed{Scheduled: 2}, &history.TimerScheduled{FireAt: 50, RetainsSlotOf: 2}, &history.Completed{}},
		"activity completed":  {&history.ActivityCompleted{Scheduled: 2}},
		"cancelled, no retry": {&history.ActivityCancelRequested{Scheduled: 2}},
	} {
		t.Run(what, func(t *testing.T) {
			checkTickets(t, folded(t, append([]history.Event{start(), limited(retained("x"))}, events...)...), nil, []string{"x"})
		})
	}
}

func TestSlotPassesThroughContinueAsNew(t *testing.T) {
	begun := func() history.Event { return &history.Started{Name: "o", Limit: callerAt("x", false)} }
	checkTickets(t, folded(t, begun()), []string{"x"}, nil)
	checkTickets(t, folded(t, begun(), &history.ContinuedAsNew{}), nil, nil)
	checkTickets(t, folded(t, begun(), &history.Completed{}), nil, []string{"x"})
	checkTickets(t, folded(t, begun(), &history.Failed{}), nil, []string{"x"})
}

func TestPendingInstanceWaitsForGrant(t *testing.T) {
	begun := func() history.Event { return &history.Started{Name: "o", Limit: callerAt("x", true)} }
	s := folded(t, begun(), &history.EventReceived{Name: "e"}, &history.CancelRequested{}, &history.Cancelled{})
	checkTickets(t, s, nil, []string{"x"})
	s = folded(t, begun(), &history.EventReceived{Name: "e"}, &history.Granted{Scheduled: 1}, schedule())
	if s.Waiting(1) || s.WaitingLen() != 0 {
		t.Fatal("still waiting after the grant")
	}
	for what, events := range map[string][]history.Event{
		"a decision":     {begun(), schedule()},
		"an end":         {begun(), &history.Completed{}},
		"granted twice":  {begun(), &history.Granted{Scheduled: 1}, &history.Granted{Scheduled: 1}},
		"grants nothing": {start(), &history.Granted{Scheduled: 1}},
	} {
		if _, bad := fold.Check(numbered(events...)); len(bad) != 1 {
			t.Errorf("%s: %v", what, bad)
		}
	}
}

func TestCloneIsEqualAndIndependent(t *testing.T) {
	s := folded(t, start(), limited(callerAt("k", false)), &history.TimerScheduled{FireAt: 9})
	c := s.Clone()
	if !reflect.DeepEqual(s, c) {
		t.Fatalf("%+v, of %+v", c, s)
	}
	for _, ev := range []history.Event{&history.ActivityCancelRequested{Head: history.Head{ID: 4}, Scheduled: 2}, &history.TimerCancelled{Head: history.Head{ID: 5}, Timer: 3}} {
		if err := c.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	if _, timed := s.NextTimer(); !timed || s.TicketLen() != 1 || s.OutstandingLen() != 1 || c.TicketLen() != 0 || c.TimerLen() != 0 || c.OutstandingLen() != 0 {
		t.Fatalf("%+v, %+v", s, c)
	}
	checkTickets(t, s, []string{"k"}, nil)
	checkTickets(t, c, nil, []string{"k"})
}
