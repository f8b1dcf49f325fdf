package pawltest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

// recorder is a testing.TB that records the failure of a test.
type recorder struct {
	testing.TB
	output   string
	cleanups []func()
}

func (r *recorder) note(args ...any) { r.output += strings.TrimSpace(fmt.Sprint(args...)) + "\n" }

func (r *recorder) clean() {
	for _, fn := range r.cleanups {
		fn()
	}
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(fn func())         { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Errorf(f string, a ...any) { r.note(fmt.Sprintf(f, a...)) }
func (r *recorder) Error(a ...any)            { r.note(a...) }
func (r *recorder) Fatal(a ...any)            { r.note(a...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.note(fmt.Sprintf(f, a...)); runtime.Goexit() }

func wantText(t *testing.T, output string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(output, part) {
			t.Errorf("%q is missing: %s", part, output)
		}
	}
}

type parcel struct {
	At      time.Time     `json:"at"`
	Bytes   []byte        `json:"bytes"`
	Any     any           `json:"any"`
	Renamed int           `json:"r"`
	Ratio   float64       `json:"ratio"`
	Counts  map[int]uint8 `json:"counts"`
}

var (
	ship = pawl.NewOrchestration[parcel, parcel]("ship")
	pack = pawl.NewActivity[parcel, parcel]("pack")
)

func shipping(ctx *pawl.Context, p parcel) (parcel, error) {
	first, err := pack.Call(ctx, p)
	if err != nil {
		return p, err
	}
	id, err := pawl.SideEffect(ctx, func() (int64, error) { return time.Now().UnixNano(), nil })
	if err != nil {
		return p, err
	}
	first.Any = []any{id % 1000, pawl.NewID(ctx)} // numbers in an any are float64
	return pack.Call(ctx, first)
}

func same(_ context.Context, p parcel) (parcel, error) { return p, nil }

func shipped(t *testing.T) []byte {
	t.Helper()
	env := pawltest.New(t, ship.Do(shipping))
	env.Instance("parcel-7")
	env.Fake(pack.Do(same))
	in := parcel{
		At: time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC), Bytes: []byte{0, 255}, Any: uint64(1 << 53),
		Renamed: 3, Ratio: 0.1, Counts: map[int]uint8{2: 2, 1: 1},
	}
	out, err := pawltest.Run(env, ship, in)
	if err != nil || !out.At.Equal(in.At) || out.Renamed != 3 || string(out.Bytes) != string(in.Bytes) {
		t.Fatalf("%+v, %v", out, err)
	}
	return env.Export()
}

func TestExportedHistoryMatchesItsCodeInEveryPayload(t *testing.T) {
	exported := shipped(t)
	pawltest.Replay(t, exported, ship.Do(shipping))
	pawltest.EveryPrefix(t, exported, ship.Do(shipping))
	running := strings.Join(strings.SplitAfter(string(exported), "\n")[:5], "")
	pawltest.Replay(t, []byte(running), ship.Do(shipping))
	pawltest.EveryPrefix(t, []byte(running), ship.Do(shipping))
}

func TestChangedCodeDivergesFromAnExportedHistory(t *testing.T) {
	exported := shipped(t)
	for name, c := range map[string]struct {
		code func(ctx *pawl.Context, p parcel) (parcel, error)
		want string
	}{
		"a step is missing": {func(ctx *pawl.Context, p parcel) (parcel, error) { return pack.Call(ctx, p) }, "diverges at event 4"},
		"a payload is another": {func(ctx *pawl.Context, p parcel) (parcel, error) {
			p.Ratio++
			return shipping(ctx, p)
		}, "diverges at event 2"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, check := range []func(testing.TB, []byte, ...pawl.Binding){pawltest.Replay, pawltest.EveryPrefix} {
				wantText(t, outputOf(t, func(tb testing.TB) { check(tb, exported, ship.Do(c.code)) }), c.want, "SideEffectRecorded")
			}
		})
	}
	output := outputOf(t, func(tb testing.TB) { pawltest.Replay(tb, exported) })
	wantText(t, output, "orchestration ship", "not among the bindings")
	output = outputOf(t, func(tb testing.TB) { pawltest.Replay(tb, nil, ship.Do(shipping)) })
	wantText(t, output, "empty")
}

func TestPrefixesDetectCodeThatOnlyFitsTheWholeHistory(t *testing.T) {
	runs := 0
	code := func(ctx *pawl.Context, days int) (string, error) {
		runs++
		if runs > 1 { // simulates code that was changed since
			days++
		}
		return reminder(ctx, days)
	}
	env := pawltest.New(t, remind.Do(reminder), mail.Do(send))
	if _, err := pawltest.Run(env, remind, 2); err != nil {
		t.Fatal(err)
	}
	half := strings.Join(strings.SplitAfter(string(env.Export()), "\n")[:6], "")
	pawltest.Replay(t, []byte(half), remind.Do(code))
	output := outputOf(t, func(tb testing.TB) { pawltest.EveryPrefix(tb, env.Export(), remind.Do(code)) })
	wantText(t, output, "diverges at event", "Completed")
}
