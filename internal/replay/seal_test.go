package replay_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

const secret = `"secret"`

// sealedCode uses a payload in every place where code can have one.
func sealedCode(x *replay.Code) (string, error) {
	if string(x.Input().Data) != secret {
		return "", errors.New("input " + string(x.Input().Data))
	}
	if err := x.SetStatus("", text(secret)); err != nil {
		return "", err
	}
	if p, err := x.SideEffect(func() (history.Payload, *history.Failure) { return text(secret), nil }, nil); err != nil || string(p.Data) != secret {
		return "", errors.New("side effect " + string(p.Data))
	}
	if err := x.Send("other", "event", text(secret), nil); err != nil {
		return "", err
	}
	got, err := call(x, "activity", secret)
	if err != nil || got != secret {
		return "", errors.New("activity " + got)
	}
	if _, err := call(x, "activity", secret); err == nil || err.Error() != secret {
		return "", errors.New("failure is not " + secret)
	}
	event := x.Next("event", nil)
	if got, err := get(x, event); err != nil || got != secret {
		return "", errors.New("event " + got)
	}
	next := x.NextUpdate("update", nil)
	if got, err := get(x, next); err != nil || got != secret || string(next.Update().Payload.Data) != secret {
		return "", errors.New("update " + got)
	}
	if err := x.AnswerUpdate(next.Update(), history.Payload{}, &history.Failure{Message: secret}); err != nil {
		return "", err
	}
	if p, err := x.CurrentStatus(""); err != nil || string(p.Data) != secret {
		return "", errors.New("status " + string(p.Data))
	}
	return secret, nil
}

// sealedRun runs sealedCode with a codec, and returns the history.
func sealedRun(t *testing.T, c *sealing.Codec) []history.Event {
	t.Helper()
	x := sealedExecution(c)
	inputs := []history.Event{
		&history.Started{Name: "o", Payload: text(secret)}, &history.ActivityCompleted{Scheduled: 4, Result: text(secret)},
		&history.ActivityFailed{Scheduled: 6, Failure: history.Failure{Message: secret}}, &history.EventReceived{Name: "event", Payload: text(secret)},
		&history.UpdateReceived{Name: "update", UpdateID: "u", Payload: text(secret)},
	}
	for _, in := range inputs {
		c.SealEvent(nil, in)
		if outcome, err := x.Apply(in); err != nil || outcome.Dropped() {
			t.Fatalf("%T: %s, %v", in, outcome, err)
		}
	}
	events := x.Take()
	status, _ := x.Status()
	b := status.Data
	for _, e := range events {
		encoded, err := eventcodec.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, encoded...)
	}
	if bytes.Contains(b, []byte("secret")) {
		t.Error("a secret is readable")
	}
	if _, ok := events[len(events)-1].(*history.Completed); !ok {
		f := events[len(events)-1].(*history.Failed).Failure
		opened, err := c.OpenFailure(&f)
		t.Fatalf("the code ended with %+v, %v", opened, err)
	}
	return events
}

func sealedExecution(c *sealing.Codec) *replay.Execution {
	id := effectid.Identity{Instance: "order-1", Origin: history.Position{Seq: 1, Time: 2}, Execution: 1}
	return replay.New(id, program(sealedCode), replay.Options{Codec: c, Strict: true})
}

func codecOf(t *testing.T, compress bool, current byte, earlier ...byte) *sealing.Codec {
	t.Helper()
	var all []pawlcodec.Key
	for _, b := range append([]byte{current}, earlier...) {
		k, err := pawlcodec.NewKey("k"+string('0'+rune(b)), bytes.Repeat([]byte{b}, 32))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	c, err := pawlcodec.New(pawlcodec.Options{Compress: compress, Keys: pawlcodec.Keys(all[0], all[1:]...)})
	if err != nil {
		t.Fatal(err)
	}
	return (*sealing.Codec)(c)
}

func TestSealedHistoryReplaysAfterARotation(t *testing.T) {
	events := sealedRun(t, codecOf(t, false, 1))
	x := sealedExecution(codecOf(t, true, 2, 1))
	if err := x.Replay(events); err != nil {
		t.Errorf("with a new key and with compression: %v", err)
	}
}

func TestTurnThatIsDecidedAgainHasTheSameEffectIDsAlthoughItIsSealed(t *testing.T) {
	one, two := sealedRun(t, codecOf(t, true, 1)), sealedRun(t, codecOf(t, true, 1))
	effects := 0
	for i := range one {
		if a, ok := one[i].(*history.ActivityScheduled); ok {
			effects++
			if b := two[i].(*history.ActivityScheduled); a.Effect != b.Effect {
				t.Errorf("event %d: effect %s and %s", a.ID, a.Effect, b.Effect)
			}
		}
	}
	if effects != 2 {
		t.Errorf("%d effects", effects)
	}
}

func TestMissingKeyBreaksTheExecutionAndIsNoDivergence(t *testing.T) {
	events := sealedRun(t, codecOf(t, false, 1))
	for n := 1; n <= len(events); n++ {
		x := sealedExecution(codecOf(t, false, 2))
		err := x.Replay(events[:n])
		missing, ok := errors.AsType[*sealing.KeyError](err)
		if !ok || missing.ID != "k1" || !errors.Is(err, replay.ErrSealed) || errors.As(err, new(*replay.Divergence)) {
			t.Errorf("%d events: %v", n, err)
		}
	}
	c := codecOf(t, false, 1)
	x := sealedExecution(c)
	if err := x.Replay(events[:7]); err != nil {
		t.Fatal(err)
	}
	lost := &history.EventReceived{Name: "event", Payload: codecOf(t, false, 3).Seal(nil, text(secret))}
	if _, err := x.Apply(lost); !errors.Is(err, replay.ErrSealed) {
		t.Errorf("an event with a missing key: %v", err)
	}
}

func TestUpdateWhoseKeyIsMissingEndsTheCode(t *testing.T) {
	unwound := 0
	code := program(func(x *replay.Code) (string, error) {
		defer func() { unwound++ }()
		if err := x.SetValidator("update", func(history.Payload) *history.Failure { return nil }); err != nil {
			return "", err
		}
		return get(x, x.Next("event", nil))
	})
	c := codecOf(t, false, 1)
	u := &history.UpdateReceived{Name: "update", UpdateID: "u", Payload: codecOf(t, false, 2).Seal(nil, text(secret))}
	for i := range 10 {
		x := replay.New(effectid.Identity{Instance: "order-1", Execution: 1}, code, replay.Options{Codec: c})
		if _, err := x.Apply(&history.Started{Name: "o"}); err != nil {
			t.Fatal(err)
		}
		if f := x.Validate(u); f != nil {
			t.Errorf("the update was answered: %+v", f)
		}
		if _, err := x.Apply(u); !errors.Is(err, replay.ErrSealed) {
			t.Errorf("applying the update: %v", err)
		}
		if err := x.Evict(); err != nil || unwound != i+1 {
			t.Fatalf("evicted: %v; the code of %d of %d executions has ended", err, unwound, i+1)
		}
	}
}

func TestMissingKeyIsNotReportedAsAChangedPayload(t *testing.T) {
	events := sealedRun(t, codecOf(t, false, 1))
	for _, e := range events { // the key of the decisions is missing, but not that of the inputs
		if a, ok := e.(*history.ActivityScheduled); ok {
			a.Payload = codecOf(t, false, 3).Seal(nil, text(secret))
		}
	}
	opts := replay.Options{Codec: codecOf(t, false, 1), PayloadChanged: func(id uint64, name string) { t.Errorf("payload of %d, %s, changed", id, name) }}
	x := replay.New(effectid.Identity{Instance: "order-1", Origin: history.Position{Seq: 1, Time: 2}, Execution: 1}, program(sealedCode), opts)
	if err := x.Replay(events); !errors.Is(err, replay.ErrSealed) {
		t.Error(err)
	}
}

func TestDivergenceHasNoMessageOfAFailure(t *testing.T) {
	for code, want := range map[string]string{"": "Failed", "declined": "Failed (declined)"} {
		x := replay.New(effectid.Identity{Instance: "order-1", Execution: 1}, program(waitsFor("a")), replay.Options{Codec: codecOf(t, false, 1)})
		err := x.Replay(numbered(&history.Started{Name: "o"}, &history.Failed{Failure: history.Failure{Code: code, Message: secret}}))
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", code, err)
		}
	}
}
