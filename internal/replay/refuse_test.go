package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// codeOf returns the code of a failure, empty if there is none.
func codeOf(err error) string {
	if f, ok := errors.AsType[*history.Failure](err); ok {
		return f.Code
	}
	return ""
}

// A rejected call is followed by an accepted call with the same name. On replay, the first must not match the event of the second.
func TestRejectedCallIsRejectedOnReplayUnderAnyLimits(t *testing.T) {
	big, small := text(strings.Repeat("x", 20)), text("x")
	code := program(func(x *replay.Code) (string, error) {
		var codes []string
		for _, p := range []history.Payload{big, small} {
			_, err := get(x, x.Call(replay.Call{Activity: "a", Payload: p}))
			codes = append(codes, codeOf(err))
			_, err = get(x, x.Call(replay.Call{Child: &replay.Child{Name: "c"}, Payload: p}))
			codes = append(codes, codeOf(err),
				codeOf(x.Send("i", "e", p, nil)),
				codeOf(x.SendOrStart("i", "s", small, history.SentStart{Name: "c", Payload: p}, nil)),
				codeOf(x.Launch(replay.Child{Name: "c", Instance: "j"}, p, nil)))
		}
		if want := strings.Repeat(history.CodeTooLarge+" ", 5) + strings.Repeat(" ", 4); strings.Join(codes, " ") != want {
			return "", fmt.Errorf("codes %q", codes)
		}
		return "", nil
	})
	d := replaytest.New(t, code, replay.Options{Limits: replay.Limits{Payload: 10}})
	wantKinds(t, d.Start(text("")), history.KindRefused, history.KindRefused, history.KindRefused, history.KindRefused, history.KindRefused,
		history.KindActivityScheduled)
	wantKinds(t, d.Complete(d.Only("a"), text("done")), history.KindChildScheduled)
	d.CompleteChild(d.X.Children()[0], text("done"))
	if _, ok := d.End().(*history.Completed); !ok {
		t.Fatalf("ended with %+v", d.End())
	}
	for _, limit := range []int{1000, 10, 1} {
		again := replay.New(d.X.Identity(), code, replay.Options{Limits: replay.Limits{Payload: limit}, Strict: true})
		if err := again.Replay(d.History); err != nil || !again.Ended() {
			t.Errorf("with a limit of %d: %v", limit, err)
		}
	}
}

func TestCallOverTheLimitIsRejectedOnReplayAfterTheLimitIsRaised(t *testing.T) {
	code := program(func(x *replay.Code) (string, error) {
		first := start(x, "a", "")
		_, err := get(x, start(x, "a", ""))
		if codeOf(err) != history.CodeTooMany {
			return "", fmt.Errorf("the second: %w", err)
		}
		if _, err := get(x, first); err != nil {
			return "", err
		}
		return call(x, "a", "")
	})
	d := replaytest.New(t, code, replay.Options{Limits: replay.Limits{Outstanding: 1}})
	wantKinds(t, d.Start(text("")), history.KindActivityScheduled, history.KindRefused)
	d.Complete(d.Only("a"), text(""))
	d.Complete(d.Only("a"), text("done"))
	again := replay.New(d.X.Identity(), code, replay.Options{})
	if err := again.Replay(d.History); err != nil || !again.Ended() {
		t.Error(err)
	}
}

func TestCallThatDoesNotFitIntoItsTurnIsRejectedAndAcceptedInTheNextTurn(t *testing.T) {
	const each = 500 << 10
	large := strings.Repeat("x", each)
	code := program(func(x *replay.Code) (string, error) {
		done := 0
		var outstanding []*replay.Future
		for done < 40 {
			f := start(x, "a", large)
			if !f.Settled() {
				outstanding = append(outstanding, f)
				done++
				continue
			}
			_, err := f.Value()
			if refused, ok := errors.AsType[*history.Failure](err); !ok || refused.Code != history.CodeTurnTooLarge || !slices.Contains(refused.Also, history.CodeTooLarge) {
				return "", fmt.Errorf("call %d: %w", done, err)
			}
			if _, err := get(x, outstanding[0]); err != nil { // the next turn has room again
				return "", err
			}
			outstanding = outstanding[1:]
		}
		if err := x.Send("i", "e", text(large), nil); codeOf(err) == "" {
			_, err = x.SideEffect(func() (history.Payload, *history.Failure) { return text(large), nil }, nil)
			return "", err
		}
		return "", nil
	})
	d := replaytest.New(t, code, replay.Options{})
	for made := d.Start(text("")); !d.X.Ended(); {
		size := 0
		for _, e := range made {
			b, err := eventcodec.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			size += len(b)
		}
		if size > replay.MaxRoom+4096 {
			t.Fatalf("a step decided %d bytes", size)
		}
		made = d.Complete(d.Scheduled("a")[0], text(""))
	}
	if _, ok := d.End().(*history.Completed); !ok {
		t.Fatalf("ended with %+v", d.End())
	}
	d.CheckReplay()
}

func TestRejectionWithoutItsCallIsADivergence(t *testing.T) {
	refused := numbered(&history.Started{}, &history.Refused{Of: history.KindActivityScheduled, Name: "a", Failure: history.Failure{Message: "no"}})
	for name, code := range map[string]body{
		"another call": waitsFor("b"),
		"an event":     func(x *replay.Code) (string, error) { return "", x.Send("i", "a", text(""), nil) },
		"nothing":      func(x *replay.Code) (string, error) { return get(x, x.Timer(0, nil)) },
	} {
		var d *replay.Divergence
		if _, err := replayWith(code, replay.Options{}, refused); !errors.As(err, &d) || d.EventID != 2 || !strings.Contains(d.Expected, "Refused of a") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
