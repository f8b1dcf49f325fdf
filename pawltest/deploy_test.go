package pawltest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

// version is a child that sleeps an hour and returns its version.
func version(v pawl.Version) pawl.OrchestrationBinding {
	return child.Do(func(ctx *pawl.Context, _ string) (string, error) {
		return "version " + string(v) + " for " + pawl.Instance(ctx).Version, pawl.Sleep(ctx, time.Hour)
	}, v)
}

func TestInstanceKeepsItsVersionAndTheNextOneTakesTheNewest(t *testing.T) {
	env := pawltest.New(t, version("1"), version("2"))
	env.Version("1")
	env.At(30 * time.Minute).Deploy(version("3"))
	pawltest.Start(env.At(time.Minute).To("second"), child, "x")
	pawltest.Start(env.At(45*time.Minute).To("third"), child, "x")
	if got, err := pawltest.Run(env, child, "x"); got != "version 1 for 1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.Advance(time.Hour)
	for id, want := range map[string]string{"second": "version 2 for 2", "third": "version 3 for 3"} {
		if got, err := pawltest.Result(env.Of(id), child); got != want || err != nil {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	env.WantLines(`Started child (version 1) "x" by test`)
}

func TestUndeployedVersionWaitsForItsDeployAndContinues(t *testing.T) {
	env := pawltest.New(t, counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		if pawl.Instance(ctx).Version == "2" {
			v, err := add.Receive(ctx)
			return n + v, err
		}
		return counter.ContinueAsNew(ctx, 10, pawl.Version("2"))
	}, pawl.Version("1")), calling())
	pawltest.Send(env.At(time.Hour), add, 1)
	env.At(2 * time.Hour).Deploy(counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		v, err := add.Receive(ctx)
		return n + v, err
	}, pawl.Version("2")))
	if got, err := pawltest.Run(env, counter, 0); got != 11 || err != nil || env.Now().Hour() != 2 {
		t.Errorf("%d, %v at %s", got, err, env.Now())
	}

	env = pawltest.New(t, calling())
	env.At(time.Hour).Deploy(child.Do(func(_ *pawl.Context, in string) (string, error) { return in, nil }))
	if got, err := pawltest.Run(env, parent, "late"); got != "late" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDetachedStartBeginsWhenItsCodeIsDeployed(t *testing.T) {
	env := pawltest.New(t, parent.Do(func(ctx *pawl.Context, in string) (string, error) {
		return in, child.StartDetached(ctx, "later", in)
	}))
	env.At(time.Hour).Deploy(version("1"))
	if _, err := pawltest.Run(env, parent, "x"); err != nil || len(env.Sent()) != 1 {
		t.Fatal(err, env.Sent())
	}
	env.Advance(2 * time.Hour)
	if got, err := pawltest.Result(env.Of("later"), child); got != "version 1 for 1" || err != nil || len(env.Sent()) > 0 {
		t.Errorf("%q, %v, %q", got, err, env.Sent())
	}
}

func TestUnboundVersionFailsTheTestWithTheBoundOnes(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) {
		env := pawltest.New(tb, version("1"), version("2"))
		env.Version("3")
		_, _ = pawltest.Run(env, child, "x")
	})
	wantText(t, output, `instance test is of orchestration child, version "3", which is not bound; bound are ["2" "1"]`)
	output = outputOf(t, func(tb testing.TB) {
		env := pawltest.New(tb, version("1"))
		env.Version("3")
		env.AfterTurn(9).Deploy(version("3"))
		_, _ = pawltest.Run(env, child, "x")
	})
	wantText(t, output, "never comes", `version "3", which is not bound`)
}

// before and after are the code of an orchestration on two days.
func before(ctx *pawl.Context, _ string) (string, error) {
	var all []string
	for day := range 3 {
		got, err := mail.Call(ctx, day)
		if err != nil {
			return "", err
		}
		all = append(all, got)
		if err := pawl.Sleep(ctx, 24*time.Hour); err != nil {
			return "", err
		}
	}
	return strings.Join(all, ", "), nil
}

func after(ctx *pawl.Context, _ string) (string, error) {
	var all []string
	for day := range 3 {
		if pawl.Patched(ctx, "greet") {
			got, err := mail.Call(ctx, 100+day)
			if err != nil {
				return "", err
			}
			all = append(all, got)
		}
		got, err := mail.Call(ctx, day)
		if err != nil {
			return "", err
		}
		all = append(all, got)
		if err := pawl.Sleep(ctx, 24*time.Hour); err != nil {
			return "", err
		}
	}
	return strings.Join(all, ", "), nil
}

func TestPatchFitsAfterEveryTurnOfTheOldCode(t *testing.T) {
	const old = "sent 0, sent 1, sent 2"
	for turn := 1; ; turn++ {
		env := pawltest.New(t, child.Do(before), mail.Do(send))
		env.AfterTurn(turn).Deploy(child.Do(after))
		got, err := pawltest.Run(env, child, "x")
		if err != nil || got != old { // all of them passed the changed point on the first day
			t.Errorf("deployed after turn %d: %q, %v", turn, got, err)
		}
		if env.Turns() < turn {
			break
		}
	}
	env := pawltest.New(t, child.Do(after), mail.Do(send))
	if got, err := pawltest.Run(env, child, "x"); !strings.HasPrefix(got, "sent 100, sent 0, sent 101") || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.WantLines("PatchMarked greet")
}

func TestChangeWithoutAPatchDiverges(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) {
		env := pawltest.New(tb, child.Do(before), mail.Do(send))
		env.At(36 * time.Hour).Deploy(child.Do(func(ctx *pawl.Context, _ string) (string, error) { return mail.Call(ctx, 0) }))
		_, _ = pawltest.Run(env, child, "x")
	})
	wantText(t, output, "the code that was deployed at 2026-01-02 12:00:00 does not fit instance test", "diverges at event 4", "TimerScheduled")
}

func TestDeployedActivityRunsUnlessItIsFaked(t *testing.T) {
	louder := mail.Do(func(ctx context.Context, day int) (string, error) {
		got, err := send(ctx, day)
		return strings.ToUpper(got), err
	})
	for fake, want := range map[bool]string{false: "sent 0, SENT 1, SENT 2", true: "faked, faked, faked"} {
		env := pawltest.New(t, child.Do(before), mail.Do(send))
		if fake {
			env.Fake(mail.Do(func(context.Context, int) (string, error) { return "faked", nil }))
		}
		env.At(12 * time.Hour).Deploy(louder)
		if got, err := pawltest.Run(env, child, "x"); got != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestHistoryIsReplayedWithItsRecordedVersion(t *testing.T) {
	env := pawltest.New(t, version("1"))
	if _, err := pawltest.Run(env, child, "x"); err != nil {
		t.Fatal(err)
	}
	newer := child.Do(func(*pawl.Context, string) (string, error) { return "at once", nil }, pawl.Version("2"))
	pawltest.Replay(t, env.Export(), newer, version("1"))
	pawltest.EveryPrefix(t, env.Export(), newer, version("1"))
	output := outputOf(t, func(tb testing.TB) { pawltest.Replay(tb, env.Export(), newer) })
	wantText(t, output, `orchestration child, version "1", and the bindings have only ["2"]`)
}
