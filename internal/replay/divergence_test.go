package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

type body = func(*replay.Code) (string, error)

func numbered(events ...history.Event) []history.Event {
	for i, ev := range events {
		ev.Meta().ID = uint64(i) + 1
	}
	return events
}

func replayWith(fn body, opts replay.Options, events []history.Event) (*replay.Execution, error) {
	x := replay.New(effectid.Identity{Instance: "order-42"}, program(fn), opts)
	return x, x.Replay(events)
}

func scheduled(name string) *history.ActivityScheduled {
	return &history.ActivityScheduled{Name: name, Payload: text("in")}
}

func waitsFor(name string) body {
	return func(x *replay.Code) (string, error) { return call(x, name, "in") }
}

func TestDivergenceNamesTheEventAndTheLine(t *testing.T) {
	started := &history.Started{Name: "test"}
	for name, c := range map[string]struct {
		code     body
		history  []history.Event
		event    uint64
		expected string
		met      string
		nowhere  bool
	}{
		"another activity": {
			code: waitsFor("b"), history: numbered(started, scheduled("a")),
			event: 2, expected: "ActivityScheduled of a", met: "ActivityScheduled of b",
		},
		"another kind": {
			code:    func(x *replay.Code) (string, error) { return get(x, x.Timer(5, nil)) },
			history: numbered(started, scheduled("a")),
			event:   2, expected: "ActivityScheduled of a", met: "TimerScheduled",
		},
		"a decision too many": {
			code: func(x *replay.Code) (string, error) {
				start(x, "a", "in")
				return call(x, "b", "in")
			},
			history: numbered(started, scheduled("a")),
			event:   3, expected: "nothing more", met: "ActivityScheduled of b",
		},
		"a decision too many, before an input": {
			code: func(x *replay.Code) (string, error) {
				start(x, "a", "in")
				return call(x, "b", "in")
			},
			history: numbered(started, scheduled("a"), &history.ActivityCompleted{Scheduled: 2}),
			event:   3, expected: "ActivityCompleted of event 2", met: "ActivityScheduled of b",
		},
		"a decision too few": {
			code:    waitsFor("a"),
			history: numbered(started, scheduled("a"), scheduled("b")),
			event:   3, expected: "ActivityScheduled of b", met: "code that waits",
		},
		"an end too early": {
			code:    func(*replay.Code) (string, error) { return "", nil },
			history: numbered(started, scheduled("a")),
			event:   2, expected: "ActivityScheduled of a", met: "Completed", nowhere: true,
		},
		"an end too late": {
			code:    waitsFor("a"),
			history: numbered(started, scheduled("a"), &history.EventReceived{Name: "e"}, &history.Completed{}),
			event:   4, expected: "Completed", met: "code that waits",
		},
		"another end": {
			code:    func(*replay.Code) (string, error) { return "", errors.New("sorry") },
			history: numbered(started, &history.Completed{}),
			event:   2, expected: "Completed", met: "Failed", nowhere: true,
		},
		"something after the end": {
			code:    func(*replay.Code) (string, error) { return "", nil },
			history: numbered(started, &history.Completed{}, &history.EventReceived{Name: "e"}),
			event:   3, expected: "EventReceived of e", met: "nothing follows the end", nowhere: true,
		},
		"a completion without a schedule": {
			code:    waitsFor("a"),
			history: numbered(started, scheduled("a"), &history.ActivityCompleted{Scheduled: 1}),
			event:   3, expected: "ActivityCompleted of event 1", met: "nothing outstanding",
		},
		"a cancellation that the code does not make": {
			code:    waitsFor("a"),
			history: numbered(started, scheduled("a"), &history.ActivityCancelRequested{Scheduled: 2}),
			event:   3, expected: "ActivityCancelRequested of event 2", met: "did not cancel it",
		},
		"a start in the middle": {
			code:    waitsFor("a"),
			history: numbered(started, scheduled("a"), &history.Started{}),
			event:   3, expected: "Started", met: "only first",
		},
		"no start": {
			code: waitsFor("a"), history: numbered(&history.EventReceived{Name: "e"}),
			event: 1, expected: "EventReceived", met: "Started is first", nowhere: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := replayWith(c.code, replay.Options{}, c.history)
			var d *replay.Divergence
			if !errors.As(err, &d) {
				t.Fatalf("replay: %v", err)
			}
			if d.EventID != c.event || !strings.Contains(d.Expected, c.expected) || !strings.Contains(d.Met, c.met) {
				t.Fatalf("%v", err)
			}
			if here := strings.Contains(d.Where, "_test.go:"); here == c.nowhere {
				t.Fatalf("where: %q", d.Where)
			}
			if _, err := x.Apply(&history.EventReceived{Name: "e"}); !errors.As(err, &d) {
				t.Fatalf("apply after it: %v", err)
			}
			if made := x.Take(); len(made) > 0 {
				t.Fatalf("recorded %s", replaytest.Text(made))
			}
		})
	}
}

func TestGapInTheEventIDsIsADivergence(t *testing.T) {
	events := numbered(&history.Started{}, scheduled("a"))
	events[1].Meta().ID = 3
	var d *replay.Divergence
	if _, err := replayWith(waitsFor("a"), replay.Options{}, events); !errors.As(err, &d) || d.EventID != 2 {
		t.Fatalf("replay: %v", err)
	}
}

func TestRecordedPayloadIsKeptIfItEncodesDifferently(t *testing.T) {
	events := numbered(&history.Started{}, scheduled("a"))
	other := func(x *replay.Code) (string, error) { return call(x, "a", "in, with a new field") }
	var changed []uint64
	lax := replay.Options{PayloadChanged: func(id uint64, _ string) { changed = append(changed, id) }}
	x, err := replayWith(other, lax, events)
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) != 1 || changed[0] != 2 {
		t.Fatalf("reported %v", changed)
	}
	if err := x.Evict(); err != nil {
		t.Fatal(err)
	}
	var d *replay.Divergence
	if _, err := replayWith(other, replay.Options{Strict: true}, events); !errors.As(err, &d) || d.EventID != 2 {
		t.Fatalf("strict: %v", err)
	}
	result := func(*replay.Code) (string, error) { return "another result", nil }
	events = numbered(&history.Started{}, &history.Completed{Result: text("result")})
	if x, err := replayWith(result, lax, events); err != nil || len(changed) != 2 || !x.Ended() {
		t.Fatalf("another result: %v, reported %v", err, changed)
	}
	if _, err := replayWith(result, replay.Options{Strict: true}, events); !errors.As(err, &d) || d.EventID != 2 {
		t.Fatalf("another result, strict: %v", err)
	}
}

func TestCancellationsOfAStepMatchInAnyOrder(t *testing.T) {
	both := func(order ...int) body {
		return func(x *replay.Code) (string, error) {
			fs := []*replay.Future{start(x, "a", "in"), start(x, "b", "in")}
			if _, err := get(x, x.Next("go", nil)); err != nil {
				return "", err
			}
			for _, i := range order {
				fs[i].Withdraw(cancel.LostSelect, "")
			}
			return call(x, "c", "in")
		}
	}
	events := numbered(&history.Started{}, scheduled("a"), scheduled("b"), &history.EventReceived{Name: "go"},
		&history.ActivityCancelRequested{Scheduled: 2}, &history.ActivityCancelRequested{Scheduled: 3}, scheduled("c"))
	x, err := replayWith(both(1, 0), replay.Options{}, events)
	if err != nil {
		t.Fatal(err)
	}
	if ids := x.Outstanding(); len(ids) != 1 || ids[0] != 7 {
		t.Fatalf("outstanding: %v", ids)
	}
	if err := x.Evict(); err != nil {
		t.Fatal(err)
	}
	var d *replay.Divergence
	if _, err := replayWith(both(1), replay.Options{}, events); !errors.As(err, &d) || d.EventID != 5 {
		t.Fatalf("one of two: %v", err)
	}
}

func TestUnrecordedCancellationIsRecordedWithTheNextInput(t *testing.T) {
	eager := func(x *replay.Code) (string, error) {
		a := start(x, "a", "in")
		timer := x.Timer(1000, nil)
		if _, err := get(x, x.Next("go", nil)); err != nil {
			return "", err
		}
		a.Withdraw(cancel.LostSelect, "newer code")
		timer.Withdraw(cancel.LostSelect, "")
		return call(x, "b", "in")
	}
	events := numbered(&history.Started{}, scheduled("a"), &history.TimerScheduled{FireAt: 9},
		&history.EventReceived{Name: "go"}, scheduled("b"))
	x, err := replayWith(eager, replay.Options{}, events)
	if err != nil {
		t.Fatal(err)
	}
	if ids := x.Outstanding(); len(ids) != 1 || ids[0] != 5 {
		t.Fatalf("outstanding for the code: %v", ids)
	}
	if _, err := x.Apply(&history.EventReceived{Name: "noise"}); err != nil {
		t.Fatal(err)
	}
	made := x.Take()
	wantKinds(t, made, history.KindEventReceived, history.KindActivityCancelRequested, history.KindTimerCancelled)
	if c := made[1].(*history.ActivityCancelRequested); c.Scheduled != 2 || c.Text != "newer code" {
		t.Fatalf("cancelled: %+v", c)
	}
	if o, err := x.Apply(&history.ActivityCompleted{Scheduled: 2}); err != nil || o != replay.DroppedLate {
		t.Fatalf("its completion: %s, %v", o, err)
	}
	if err := x.Evict(); err != nil {
		t.Fatal(err)
	}
	again, err := replayWith(eager, replay.Options{}, append(events, made...))
	if err != nil {
		t.Fatalf("the recorded events do not replay: %v", err)
	}
	if err := again.Evict(); err != nil {
		t.Fatal(err)
	}
}

func TestCompletionBeforeAnUnrecordedCancellationIsRecordedAndIgnored(t *testing.T) {
	eager := func(x *replay.Code) (string, error) {
		a := start(x, "a", "in")
		if _, err := get(x, x.Next("go", nil)); err != nil {
			return "", err
		}
		a.Withdraw(cancel.LostSelect, "")
		return get(x, a)
	}
	base := []history.Event{&history.Started{}, scheduled("a"), &history.EventReceived{Name: "go"}}
	for _, replayed := range []bool{true, false} {
		code := func(x *replay.Code) (string, error) {
			_, _ = eager(x)
			return call(x, "b", "in")
		}
		events := append(append([]history.Event{}, base...), scheduled("b"))
		completion := &history.ActivityCompleted{Scheduled: 2, Result: text("a")}
		if replayed {
			events = append(events, completion)
		}
		x, err := replayWith(code, replay.Options{}, numbered(events...))
		if err != nil {
			t.Fatal(err)
		}
		if !replayed {
			if o, err := x.Apply(completion); err != nil || o != replay.Applied {
				t.Fatalf("completion: %s, %v", o, err)
			}
			wantKinds(t, x.Take(), history.KindActivityCompleted)
		}
		if o, err := x.Apply(&history.ActivityCompleted{Scheduled: 4, Result: text("b")}); err != nil || o != replay.Applied {
			t.Fatalf("the other: %s, %v", o, err)
		}
		wantKinds(t, x.Take(), history.KindActivityCompleted, history.KindCompleted)
	}
}

func TestReplayedEndCoversCancellationsRecordedLate(t *testing.T) {
	code := func(x *replay.Code) (string, error) {
		a := start(x, "a", "in")
		if _, err := get(x, x.Next("go", nil)); err != nil {
			return "", err
		}
		a.Withdraw(cancel.LostSelect, "")
		return get(x, x.Next("end", nil))
	}
	x, err := replayWith(code, replay.Options{}, numbered(&history.Started{}, scheduled("a"),
		&history.EventReceived{Name: "go"}, &history.EventReceived{Name: "end", Payload: text("x")},
		&history.ActivityCancelRequested{Scheduled: 2}, &history.Completed{Result: text("x")}))
	if err != nil || !x.Ended() {
		t.Fatalf("replay: %v, ended %t", err, x.Ended())
	}
}

func TestEveryEventHasADistinctDescriptionInADivergence(t *testing.T) {
	seen := make(map[string]bool)
	for _, ev := range []history.Event{
		nil, &history.Started{}, &history.EventReceived{}, &history.CancelRequested{},
		&history.ActivityScheduled{}, &history.ActivityCompleted{}, &history.ActivityFailed{}, &history.ActivityCancelRequested{},
		&history.TimerScheduled{}, &history.TimerFired{}, &history.TimerCancelled{}, &history.SideEffectRecorded{},
		&history.ChildScheduled{}, &history.ChildCompleted{}, &history.ChildFailed{}, &history.ChildCancelRequested{},
		&history.EventSent{}, &history.PatchMarked{}, &history.PurgeRequested{},
		&history.Completed{}, &history.Failed{}, &history.Cancelled{}, &history.ContinuedAsNew{},
	} {
		text := replay.Describe(ev)
		if seen[text] || strings.Contains(text, "unknown") || strings.Contains(text, "%!") {
			t.Errorf("%T is %q", ev, text)
		}
		seen[text] = true
	}
}
