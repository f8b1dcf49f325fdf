package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestDetachedStartIsRecordedOnceAndNotRepeatedOnReplay(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		if err := x.Launch(replay.Child{Name: "report", Instance: "r-1", Abandon: true}, text("in"), nil); err != nil {
			return "", err
		}
		return call(x, "a", "")
	})
	made := d.Start(text(""))
	wantKinds(t, made, history.KindChildScheduled, history.KindActivityScheduled)
	if s := made[0].(*history.ChildScheduled); !s.Detached || s.Abandon || s.Effect == "" || len(d.X.Children()) > 0 {
		t.Errorf("started %+v, outstanding %v", s, d.X.Children())
	}
	if o, _ := d.Offer(&history.ChildCompleted{Scheduled: 2, Effect: d.EffectOf(2)}); o != replay.DroppedLate {
		t.Errorf("its end: %s", o)
	}
	d.CheckReplay() // fails if anything is recorded again
	d.CheckRecord()
}

func TestMessageIsRejectedAfterItsScopeHasEnded(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		_, _ = call(x, "a", "")
		for _, err := range []error{
			x.Send("i", "e", text(""), nil), x.SendOrStart("i", "e", text(""), history.SentStart{Name: "c"}, nil), x.Launch(replay.Child{Name: "c"}, text(""), nil), x.ContinueAsNew(text(""), "", nil),
			x.ContinueAsNew(text(""), "", x.Detach(nil, 0)),
		} {
			if !errors.Is(err, errCancelled) {
				return "", fmt.Errorf("not rejected: %w", err)
			}
		}
		return "", x.Send("i", "e", text(""), x.Detach(nil, 0))
	})
	d.Start(text(""))
	wantKinds(t, d.Cancel("me", ""), history.KindActivityCancelRequested, history.KindEventSent, history.KindCompleted)
	d.CheckReplay()
}

func TestOversizedPayloadIsRejectedByEveryOperation(t *testing.T) {
	big := text(strings.Repeat("x", 11))
	for name, call := range map[string]func(*replay.Code) error{
		"event e": func(x *replay.Code) error { return x.Send("i", "e", big, nil) },
		"event s": func(x *replay.Code) error {
			return x.SendOrStart("i", "s", big, history.SentStart{Name: "c"}, nil)
		},
		"of orchestration d has": func(x *replay.Code) error {
			return x.SendOrStart("i", "s", text(""), history.SentStart{Name: "d", Payload: big}, nil)
		},
		"have 12 bytes together": func(x *replay.Code) error {
			return x.SendOrStart("i", "s", text("123456"), history.SentStart{Name: "d", Payload: text("123456")}, nil)
		},
		"orchestration c": func(x *replay.Code) error { return x.Launch(replay.Child{Name: "c"}, big, nil) },
		"next execution":  func(x *replay.Code) error { return x.ContinueAsNew(big, "", nil) },
		"custom status":   func(x *replay.Code) error { return x.SetStatus("", big) },
		"the input of child ": func(x *replay.Code) error {
			_, err := get(x, x.Call(replay.Call{Child: &replay.Child{}, Payload: big}))
			return err
		},
	} {
		d := replaytest.New(t, program(func(x *replay.Code) (string, error) { return "", call(x) }),
			replay.Options{Limits: replay.Limits{Payload: 10}})
		made := d.Start(text(""))
		if decides := name != "next execution" && name != "custom status"; len(made) == 1 == decides {
			t.Errorf("%s: %d decisions", name, len(made))
		}
		wantFailure(t, d, history.CodeTooLarge, name)
		if _, version := d.X.Status(); version > 0 {
			t.Error("a status that is too large was set")
		}
	}
}

func TestDivergenceOfAChildOrAMessageNamesTheEventAndTheLine(t *testing.T) {
	scheduled := func(c history.ChildScheduled) []history.Event {
		return numbered(&history.Started{}, &c)
	}
	sent := numbered(&history.Started{}, &history.EventSent{Instance: "i", Name: "e", Payload: text("in")})
	to := func(instance, name string) body {
		return func(x *replay.Code) (string, error) {
			_ = x.Send(instance, name, text("in"), nil)
			return call(x, "a", "")
		}
	}
	request := func(c replay.Child) body {
		return func(x *replay.Code) (string, error) {
			return get(x, x.Call(replay.Call{Child: &c, Payload: text("in")}))
		}
	}
	launch := func(x *replay.Code) (string, error) {
		return "", x.Launch(replay.Child{Name: "c", Instance: "i"}, text("in"), nil)
	}
	for name, c := range map[string]struct {
		code          body
		history       []history.Event
		expected, met string
	}{
		"another child": {request(replay.Child{Name: "d", Instance: "i"}), scheduled(history.ChildScheduled{Name: "c", Instance: "i"}), "ChildScheduled of c as i", "ChildScheduled of d as i"},
		"another id":    {request(replay.Child{Name: "c", Instance: "j"}), scheduled(history.ChildScheduled{Name: "c", Instance: "i"}), "of c as i", "of c as j"},
		"a derived id": {
			request(replay.Child{Name: "c"}), scheduled(history.ChildScheduled{Name: "c", Instance: "i"}), "of c as i", "of c as order-42~0-2-",
		},
		"attached":            {request(replay.Child{Name: "c", Instance: "i"}), scheduled(history.ChildScheduled{Name: "c", Instance: "i", Detached: true}), "as i, detached", "of c as i"},
		"detached":            {launch, scheduled(history.ChildScheduled{Name: "c", Instance: "i"}), "of c as i", "as i, detached"},
		"another event":       {to("i", "f"), sent, "EventSent of e to i", "EventSent of f to i"},
		"another receiver":    {to("j", "e"), sent, "EventSent of e to i", "EventSent of e to j"},
		"not sent":            {waitsFor("a"), sent, "EventSent of e to i", "ActivityScheduled of a"},
		"sent once too often": {to("i", "e"), numbered(&history.Started{}, scheduled(history.ChildScheduled{})[1]), "ChildScheduled of ", "EventSent of e to i"},
		"sent without a start": {
			to("i", "e"), numbered(&history.Started{}, &history.EventSent{Instance: "i", Name: "e", Payload: text("in"), Start: &history.SentStart{Name: "c"}}),
			"EventSent of e to i, or to a new c", "EventSent of e to i",
		},
		"sent with a start": {
			func(x *replay.Code) (string, error) {
				return "", x.SendOrStart("i", "e", text("in"), history.SentStart{Name: "c"}, nil)
			}, sent, "EventSent of e to i", "EventSent of e to i, or to a new c",
		},
		"another end": {
			func(*replay.Code) (string, error) { return "", nil }, numbered(&history.Started{}, &history.ContinuedAsNew{}), "ContinuedAsNew", "Completed",
		},
		"an end instead of another execution": {
			func(x *replay.Code) (string, error) { return "", x.ContinueAsNew(text(""), "", nil) },
			numbered(&history.Started{}, &history.Completed{}), "Completed", "ContinuedAsNew",
		},
	} {
		var d *replay.Divergence
		if _, err := replayWith(c.code, replay.Options{}, c.history); !errors.As(err, &d) || d.EventID != 2 ||
			!strings.Contains(d.Expected, c.expected) || !strings.Contains(d.Met, c.met) {
			t.Errorf("%s: %v", name, err)
		} else if atEnd := strings.HasPrefix(name, "an end") || name == "another end"; atEnd != (d.Where == "") {
			t.Errorf("%s: where: %q", name, d.Where)
		}
	}
}

func TestDivergenceOfAnInputNamesIt(t *testing.T) {
	base := func(more history.Event) []history.Event {
		return numbered(&history.Started{}, &history.ChildScheduled{Name: "c", Instance: "i", Payload: text("in"), Effect: "e"}, more)
	}
	for expected, more := range map[string]history.Event{
		"ChildCompleted of event 2":       &history.ChildCompleted{Scheduled: 2, Effect: "f"},
		"ChildFailed of event 1":          &history.ChildFailed{Scheduled: 1, Effect: "e"},
		"ChildCancelRequested of event 2": &history.ChildCancelRequested{Scheduled: 2},
	} {
		var d *replay.Divergence
		if _, err := replayWith(func(x *replay.Code) (string, error) {
			return get(x, x.Call(replay.Call{Child: &replay.Child{Name: "c", Instance: "i"}, Payload: text("in")}))
		}, replay.Options{}, base(more)); !errors.As(err, &d) || d.EventID != 3 || d.Expected != expected {
			t.Errorf("%s: %v", expected, err)
		}
	}
}

func TestRecordedMessageIsKeptIfItEncodesDifferently(t *testing.T) {
	events := numbered(&history.Started{}, &history.ChildScheduled{Name: "c", Instance: "i", Payload: text("was"), Effect: "e"},
		&history.ChildScheduled{Name: "l", Instance: "j", Payload: text("was"), Detached: true},
		&history.EventSent{Name: "s", Instance: "k", Payload: text("was")},
		&history.ChildCompleted{Scheduled: 2, Effect: "e"}, &history.ContinuedAsNew{Payload: text("was")})
	for changed, name := range map[uint64]string{2: "c", 3: "l", 4: "s", 6: ""} {
		payload := func(id uint64) history.Payload {
			if id == changed {
				return text("is")
			}
			return text("was")
		}
		code := func(x *replay.Code) (string, error) {
			c := x.Call(replay.Call{Child: &replay.Child{Name: "c", Instance: "i"}, Payload: payload(2)})
			_ = x.Launch(replay.Child{Name: "l", Instance: "j"}, payload(3), nil)
			_ = x.Send("k", "s", payload(4), nil)
			if _, err := get(x, c); err != nil {
				return "", err
			}
			return "", x.ContinueAsNew(payload(6), "", nil)
		}
		reported := make(map[uint64]string)
		x, err := replayWith(code, replay.Options{PayloadChanged: func(id uint64, name string) { reported[id] = name }}, events)
		if want := map[uint64]string{changed: name}; err != nil || !maps.Equal(reported, want) {
			t.Fatalf("event %d: %v, reported %v", changed, err, reported)
		}
		if end, _ := x.Continued(); string(end.Payload.Data) != "was" {
			t.Errorf("continued with %s", end.Payload.Data)
		}
		var d *replay.Divergence
		if _, err := replayWith(code, replay.Options{Strict: true}, events); !errors.As(err, &d) || d.EventID != changed {
			t.Errorf("event %d, strict: %v", changed, err)
		}
	}
}

func TestSendOrStartIsRecordedOnceAndItsStartIsPartOfItsEffectID(t *testing.T) {
	effect := func(input, event string) string {
		d := drive(t, func(x *replay.Code) (string, error) {
			if err := x.SendOrStart("tenant-7", "used", text(event), history.SentStart{Name: "tenant", Version: "2", Payload: text(input)}, nil); err != nil {
				return "", err
			}
			return call(x, "a", "")
		})
		made := d.Start(text(""))
		wantKinds(t, made, history.KindEventSent, history.KindActivityScheduled)
		d.CheckReplay()
		d.CheckRecord()
		return made[0].(*history.EventSent).Effect
	}
	first := effect("in", "one")
	if first == "" || first != effect("in", "one") || first == effect("in", "two") || first == effect("out", "one") {
		t.Error("the effect id is not that of start and event together")
	}
}

func TestInputOfASendOrStartMayEncodeDifferentlyOnReplay(t *testing.T) {
	events := numbered(&history.Started{}, &history.EventSent{Instance: "i", Name: "e", Payload: text("in"), Start: &history.SentStart{Name: "c", Payload: text("was")}}, scheduled("a"))
	code := func(x *replay.Code) (string, error) {
		if err := x.SendOrStart("i", "e", text("in"), history.SentStart{Name: "c", Payload: text("is")}, nil); err != nil {
			return "", err
		}
		return call(x, "a", "in")
	}
	changed := 0
	x, err := replayWith(code, replay.Options{PayloadChanged: func(uint64, string) { changed++ }}, events)
	if err != nil || changed != 1 {
		t.Errorf("%v, %d changed", err, changed)
	}
	if err := x.Evict(); err != nil {
		t.Error(err)
	}
	var d *replay.Divergence
	if _, err := replayWith(code, replay.Options{Strict: true}, events); !errors.As(err, &d) || d.EventID != 2 {
		t.Errorf("strict: %v", err)
	}
}
