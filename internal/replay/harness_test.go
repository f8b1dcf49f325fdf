package replay_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func text(s string) history.Payload {
	return history.Payload{Type: history.TypeJSON, Data: []byte(s)}
}

// program returns a program whose function returns a text or an error.
func program(fn func(*replay.Code) (string, error)) replay.Program {
	return func(x *replay.Code) replay.Ending {
		result, err := fn(x)
		if err == nil {
			return replay.Ending{Result: text(result)}
		}
		var f *history.Failure
		if !errors.As(err, &f) {
			f = &history.Failure{Message: err.Error()}
		}
		return replay.Ending{Failure: f, Cancelled: errors.Is(err, errCancelled)}
	}
}

func drive(tb testing.TB, fn func(*replay.Code) (string, error)) *replaytest.Driver {
	tb.Helper()
	return replaytest.New(tb, program(fn), replay.Options{})
}

// call runs an activity and waits for its result.
func call(x *replay.Code, name, in string) (string, error) {
	return get(x, start(x, name, in))
}

func start(x *replay.Code, name, in string) *replay.Future {
	return x.Call(replay.Call{Activity: name, Queue: name, Payload: text(in)})
}

func get(x *replay.Code, f *replay.Future) (string, error) {
	if err := x.Wait(f, nil); err != nil {
		return "", err
	}
	p, err := f.Value()
	return string(p.Data), err
}

// choose waits for the first of the futures and withdraws the others.
func choose(x *replay.Code, fs ...*replay.Future) (int, error) {
	winner, err := x.WaitAny(fs, nil)
	if err != nil {
		return -1, err
	}
	for i, f := range fs {
		if i != winner {
			f.Withdraw(lostSelect, "")
		}
	}
	return winner, nil
}

func wantResult(tb testing.TB, d *replaytest.Driver, want string) {
	tb.Helper()
	end, ok := d.End().(*history.Completed)
	if !ok || string(end.Result.Data) != want {
		tb.Fatalf("ended with %+v, not with %q:\n%s", d.End(), want, replaytest.Text(d.History))
	}
	d.CheckReplay()
}

func kinds(events []history.Event) []history.Kind {
	var ks []history.Kind
	for _, ev := range events {
		ks = append(ks, ev.Kind())
	}
	return ks
}

func wantKinds(tb testing.TB, events []history.Event, want ...history.Kind) {
	tb.Helper()
	got := kinds(events)
	if len(got) != len(want) {
		tb.Fatalf("kinds %v, not %v:\n%s", got, want, replaytest.Text(events))
	}
	for i := range got {
		if got[i] != want[i] {
			tb.Fatalf("kinds %v, not %v:\n%s", got, want, replaytest.Text(events))
		}
	}
}

const lostSelect = cancel.LostSelect

var errCancelled = &cancel.Cancelled{}
