package model

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/tests/model/explore"
)

// TestMain walks more than rapid does by default; the flags of rapid still rule.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "150", "rapid.nofailfile": "true", "rapid.shrinktime": "10s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// ticks are the rules of the exhaustive search: the shortest intervals that keep their order.
// An owner's time is over when a fault says so.
func ticks(wrong Mistake) Rules {
	return Rules{Soon: 1, Early: 9, Look: 2, LeaseTTL: 2, OwnerTTL: forever, Claims: 3, Inbox: 100, Seen: 1 << 40, Wrong: wrong}
}

func plan(ids ...string) (all []Message) {
	for _, id := range ids {
		kind := "event"
		if id == "start" || strings.HasPrefix(id, heir) || id == "start2" {
			kind = "start"
		}
		if id == "purge" || strings.HasPrefix(id, forced) {
			kind = "purge"
		}
		all = append(all, Message{Instance: "x", ID: id, Kind: kind})
	}
	return all
}

// rules are those of the exhaustive search, with the bound that the setup has for inboxes.
func (s *Setup) rules(wrong Mistake) {
	bound := s.Rules.Inbox
	if s.Rules = ticks(wrong); bound > 0 {
		s.Rules.Inbox = bound
	}
}

func TestTheProtocolKeepsItsPromisesInEveryWorldWithinTheBound(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup Setup
	}{
		{"two activities, rollback with requests in flight", Setup{Program: Both, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Rollbacks: 1}}},
		{"the turn decides otherwise after a rollback", Setup{Program: Race, Plan: plan("start", "go"), Pipe: 1, Faults: Faults{Rollbacks: 1}}},
		{"owner change, lost replies", Setup{Program: Race, Plan: plan("start", "go"), Pipe: 2, Hurry: true, Faults: Faults{Crashes: 1, Resends: 1, Echoes: 1}}},
		{"workers die, tasks are lost", Setup{Program: Both, Plan: plan("start"), Pipe: 1, Faults: Faults{Deaths: 1, Losses: 1, Doubles: 1}}},
		{"a start comes while what came before it is put off", Setup{Program: Race, Plan: plan("go", "start"), Pipe: 2, Hurry: true, Faults: Faults{Crashes: 1, Echoes: 1}}},
		{"copies of requests arrive late, after a rollback too", Setup{Program: Race, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Rollbacks: 1, Echoes: 1}}},
		{"a deadline races an activity", Setup{Program: Deadline, Plan: plan("start"), Pipe: 1, Faults: Faults{Rollbacks: 1, Ticks: 1}}},
		{"scheduled and cancelled in one turn", Setup{Program: Churn, Plan: plan("start"), Pipe: 1, Faults: Faults{Rollbacks: 1, Crashes: 1}}},
		{"cancelled while acks are on their way", Setup{Program: Stop, Plan: plan("start", "stop"), Pipe: 2, Hurry: true, Faults: Faults{Resends: 1}}},
		{"an event before the start, and repeats", Setup{Program: Race, Plan: plan("go", "start"), Pipe: 2, Faults: Faults{Repeats: 1, Rollbacks: 1}}},
		{"continued as new with an activity under way and events unread", Setup{Program: Cycle, Plan: plan("start", "e1", "e2"), Pipe: 2, Hurry: true, Faults: Faults{Resends: 1}}},
		{"continue-as-new is forgotten, and what it told is not", Setup{Program: Cycle, Plan: plan("start", "e1", "e2"), Pipe: 1, Faults: Faults{Rollbacks: 1, Crashes: 1}}},
		{"three executions, lost replies, another owner", Setup{Program: Count, Plan: plan("start", "e1", "e2", "e3"), Pipe: 2, Hurry: true, Faults: Faults{Resends: 1, Echoes: 1, Crashes: 1}}},
		{"what is told is decided otherwise after a rollback", Setup{Program: Report, Plan: plan("start", "go"), Pipe: 1, Faults: Faults{Rollbacks: 1, Crashes: 1}}},
		{"what was told is forgotten", Setup{Program: Report, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Rollbacks: 1}}},
		{"an orphan's place is taken, and it owed something", Setup{Program: Report, Plan: plan("start", "go", "heir1", "heir2"), Pipe: 1, Hurry: true, Faults: Faults{Resends: 1, Crashes: 1}}},
		{"more inputs than an inbox may hold, before the start and behind it", Setup{Rules: Rules{Inbox: 1}, Program: Stop, Plan: plan("e1", "e2", "start", "e3"), Pipe: 2, Faults: Faults{Resends: 1}}},
		{"purged by force, and begun again behind the purge", Setup{Program: Stop, Plan: plan("start", "kill", "e1", "start2"), Pipe: 1, Hurry: true, Faults: Faults{Echoes: 1, Crashes: 1}}},
		{"a purge is forgotten, and what came behind it is not", Setup{Program: Stop, Plan: plan("start", "kill", "e1"), Pipe: 2, Faults: Faults{Rollbacks: 1, Resends: 1}}},
		{"a purge while it runs changes nothing", Setup{Program: Deadline, Plan: plan("start", "purge", "e1"), Pipe: 1, Hurry: true, Faults: Faults{Resends: 1}}},
		{"purged in a later execution, owing", Setup{Program: Cycle, Plan: plan("start", "e1", "e2", "purge", "start2"), Pipe: 1, Faults: Faults{Resends: 1}}},
		{"a poll, with a part of the inbox at a time", Setup{Program: Sweep, Plan: plan("e1", "start", "e2", "e3"), Pipe: 2, Hurry: true, Faults: Faults{Resends: 1, Crashes: 1}}},
		{"a poll is forgotten", Setup{Program: Sweep, Plan: plan("start", "e1", "e2"), Pipe: 1, Hurry: true, Faults: Faults{Rollbacks: 1}}},
		{"a poll in front of a purge", Setup{Program: Sweep, Plan: plan("start", "purge", "e1", "kill"), Pipe: 1, Hurry: true, Faults: Faults{Crashes: 1}}},
		{"not kept when it has ended, and begun again", Setup{Program: Report, Plan: plan("start", "go", "start2"), Pipe: 2, Retire: true, Faults: Faults{Echoes: 1, Crashes: 1}}},
		{"what came before the start is put off, a copy of that comes after the purge", Setup{Program: Deadline, Plan: plan("go", "start", "kill"), Pipe: 1, Faults: Faults{Echoes: 1, Repeats: 1}}},
		{"events come before and behind a timer, another owner", Setup{Program: Window, Plan: plan("start", "go", "e1"), Pipe: 2, Hurry: true, Faults: Faults{Crashes: 1, Ticks: 2}}},
		{"an event is taken while a timer is due, and is forgotten", Setup{Program: Alarm, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Rollbacks: 1, Ticks: 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.setup.rules(None)
			f := Search(&c.setup, explore.Bound(t, 2_000))
			if f.Broken != "" {
				t.Fatal(f)
			}
			t.Log(f)
		})
	}
}

// A test that can not fail is none: each law, broken, has a counterexample.
func TestTheSearchFindsACounterexampleForEveryMistake(t *testing.T) {
	setups := map[Mistake]Setup{
		PopByCount:         {Program: Both, Plan: plan("start"), Pipe: 1, Faults: Faults{Rollbacks: 1}},
		NoPreviousPosition: {Program: Race, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Rollbacks: 1}},
		BlindNextLook:      {Program: Race, Plan: plan("start", "go"), Pipe: 2},
		BlindRescore:       {Program: Both, Plan: plan("start"), Pipe: 1},
		CancelBeforeCreate: {Program: Churn, Plan: plan("start"), Pipe: 1},
		AckOfNothing:       {Program: Stop, Plan: plan("start", "go"), Pipe: 1, Faults: Faults{Rollbacks: 1}},
		AckAfterExpiry:     {Program: Both, Plan: plan("start"), Pipe: 1},
		NoHead:             {Program: Race, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Rollbacks: 1}},
		NoFence:            {Program: Race, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Crashes: 1}},
		NoApplied:          {Program: Both, Plan: plan("start"), Pipe: 1, Faults: Faults{Rollbacks: 1}},
		RequeueUnseen:      {Program: Both, Plan: plan("start"), Pipe: 1},
		ClaimHeld:          {Program: Both, Plan: plan("start"), Pipe: 1, Faults: Faults{Doubles: 1}},
		NoRepeats:          {Program: Both, Plan: plan("start"), Pipe: 1, Faults: Faults{Repeats: 1}},
		EffectIgnored:      {Program: Race, Plan: plan("start", "go"), Pipe: 1, Faults: Faults{Rollbacks: 1}},
		BlindHold:          {Program: Race, Plan: plan("go", "start"), Pipe: 2},
		AckWithoutLook:     {Program: Both, Plan: plan("start"), Pipe: 1},
		EventsKept:         {Program: Count, Plan: plan("start", "e1"), Pipe: 1},
		FrontBehind:        {Program: Count, Plan: plan("start", "e1", "e2"), Pipe: 2, Hurry: true},
		FrontTwice:         {Program: Count, Plan: plan("start", "e1"), Pipe: 1, Faults: Faults{Resends: 1}},
		FrontAfter:         {Program: Count, Plan: plan("start", "e1"), Pipe: 1, Faults: Faults{Resends: 1, Crashes: 1}},
		FrontUnseen:        {Program: Count, Plan: plan("start", "e1"), Pipe: 1},
		NoPrune:            {Program: Count, Plan: plan("start", "e1", "e2", "e3"), Pipe: 1},
		BirthInherits:      {Program: Report, Plan: plan("start", "heir1", "heir2"), Pipe: 1},
		SentBlind:          {Program: Report, Plan: plan("start", "go"), Pipe: 2, Faults: Faults{Rollbacks: 1}},
		PurgeBlind:         {Program: Brief, Plan: plan("start", "start2"), Pipe: 2, Retire: true, Faults: Faults{Echoes: 1}},
		PurgeDropsRest:     {Program: Stop, Plan: plan("start", "kill", "e1"), Pipe: 1, Hurry: true},
		PurgeLeavesStart:   {Program: Stop, Plan: plan("start", "kill", "e1", "start2"), Pipe: 2, Hurry: true},
		PurgeLeavesPast:    {Program: Count, Plan: plan("start", "e1", "kill"), Pipe: 1, Hurry: true},
		PurgeLeavesReports: {Program: Stop, Plan: plan("start", "kill"), Pipe: 1},
		PurgeForgetsIDs:    {Program: Brief, Plan: plan("start", "e1"), Pipe: 1, Retire: true, Faults: Faults{Repeats: 1}},
		PurgeUnseen:        {Program: Stop, Plan: plan("start", "kill", "e1"), Pipe: 1, Hurry: true},
		ReportBlind:        {Program: Stop, Plan: plan("start", "kill"), Pipe: 1},
		LookBlind:          {Program: Brief, Plan: plan("go", "start"), Pipe: 2, Retire: true, Faults: Faults{Echoes: 1}},
		FullUnsaid:         {Rules: Rules{Inbox: 1}, Program: Stop, Plan: plan("start", "e1", "e2"), Pipe: 1},
		FullStart:          {Rules: Rules{Inbox: 1}, Program: Stop, Plan: plan("e1", "start"), Pipe: 1},
		PurgeRunning:       {Program: Stop, Plan: plan("start", "kill"), Pipe: 1},
		PollForgotten:      {Program: Sweep, Plan: plan("start"), Pipe: 1},
		PollEarly:          {Program: Sweep, Plan: plan("start", "e1", "e2"), Pipe: 1, Hurry: true},
		TimeBeforeBacklog:  {Program: Alarm, Plan: plan("start", "go"), Pipe: 1},
		DueUnseen:          {Program: Window, Plan: plan("start"), Pipe: 1, Faults: Faults{Ticks: 2}},
		AppliedUnseen:      {Program: Alarm, Plan: plan("start", "go"), Pipe: 1, Faults: Faults{Rollbacks: 1, Ticks: 2}},
		PurgeIndebted:      {Program: Report, Plan: plan("start", "go"), Pipe: 1, Retire: true},
	}
	for _, wrong := range slices.Concat(Mistakes(), OwnerMistakes()) {
		t.Run(string(wrong), func(t *testing.T) {
			setup, ok := setups[wrong]
			if !ok {
				t.Fatal("no setup for it")
			}
			setup.rules(wrong)
			f := Search(&setup, 400_000)
			if f.Broken == "" {
				t.Fatalf("no counterexample: %s", f)
			}
			t.Log(f)
		})
	}
}
