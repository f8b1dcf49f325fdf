package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var (
	family = pawl.NewOrchestration[int, int]("family")
	parent = pawl.NewOrchestration[string, string]("parent")
	child  = pawl.NewOrchestration[string, string]("child")
)

// generations starts two children with one generation less, each after a day, and adds up the leaves.
func generations(ctx *pawl.Context, n int) (int, error) {
	if err := pawl.Sleep(ctx, 24*time.Hour); err != nil || n == 0 {
		return 1, err
	}
	sums, err := pawl.All(ctx, family.Start(ctx, n-1), family.Start(ctx, n-1))
	if err != nil {
		return 0, err
	}
	return sums[0] + sums[1], nil
}

// calling calls a child with the given options.
func calling(opts ...pawl.ChildOption) pawl.OrchestrationBinding {
	return parent.Do(func(ctx *pawl.Context, in string) (string, error) { return child.Call(ctx, in, opts...) })
}

// mailing is a child that sends a mail with an activity, and returns its result.
func mailing(ctx *pawl.Context, _ string) (string, error) { return mail.Call(ctx, 7) }

func TestChildrenAreInstancesInTheSameVirtualTime(t *testing.T) {
	env := pawltest.New(t, family.Do(generations))
	got, err := pawltest.Run(env, family, 3)
	if got != 8 || err != nil || len(env.Instances()) != 15 || env.Now().Format(time.DateOnly) != "2026-01-05" {
		t.Fatalf("%d leaves, %v, %q at %s", got, err, env.Instances(), env.Now())
	}
	leaf := env.Of(env.Instances()[14])
	leaf.WantLines("Started family (child of", "TimerFired", "Completed 1")
	if got, err := pawltest.Result(leaf, family); got != 1 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

func TestThirtyDaysWithChildrenTakeLessThanATenthOfASecond(t *testing.T) {
	day := pawl.NewOrchestration[int, int]("day")
	month := pawl.NewOrchestration[int, int]("month")
	bindings := []pawl.Binding{
		month.Do(func(ctx *pawl.Context, days int) (sum int, err error) {
			for i := range days {
				n, err := day.Call(ctx, i)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		}),
		day.Do(func(ctx *pawl.Context, i int) (int, error) { return i, pawl.Sleep(ctx, 24*time.Hour) }),
	}
	best := time.Hour
	for try := 0; try < 20 && best > slower*100*time.Millisecond; try++ { // other processes may use the cores
		began := time.Now()
		env := pawltest.New(t, bindings...)
		got, err := pawltest.Run(env, month, 30)
		best = min(best, time.Since(began))
		if got != 435 || err != nil || len(env.Instances()) != 31 || env.Now().Format(time.DateOnly) != "2026-01-31" {
			t.Fatalf("%d, %v at %s", got, err, env.Now())
		}
	}
	if best > slower*100*time.Millisecond {
		t.Errorf("thirty days took %s", best)
	}
	t.Logf("thirty days: %s", best)
}

func TestHistoriesOfParentAndChildNameEachOther(t *testing.T) {
	env := pawltest.New(t, calling(pawl.ID("c-1")), child.Do(mailing), mail.Do(send))
	env.Script(mail, pawltest.Succeed().After(time.Hour))
	if got, err := pawltest.Run(env, parent, "x"); got != "sent 7" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	env.WantHistory(`
		1 0s      Started        parent "x" by test
		2 0s      ChildScheduled child as c-1 "x"
		3 1h0m0s  ChildCompleted of 2 "sent 7"
		4 1h0m0s  Completed      "sent 7"
	`)
	env.Of("c-1").WantHistory(`
		1 0s      Started           child (child of test) "x"
		2 0s      ActivityScheduled mail 7
		3 1h0m0s  ActivityCompleted of 2 on test "sent 7"
		4 1h0m0s  Completed         "sent 7"
	`)
	pawltest.EveryPrefix(t, env.Of("c-1").Export(), child.Do(mailing))
}

func TestFailureOfAChildKeepsTheSentinelOfItsActivity(t *testing.T) {
	env := pawltest.New(t, calling(), child.Do(mailing), mail.Do(send))
	env.Script(mail, pawltest.Fail(fmt.Errorf("the post: %w", errBusy)))
	if _, err := pawltest.Run(env, parent, "x"); !errors.Is(err, errBusy) {
		t.Errorf("%v", err)
	}
}

func TestCancellationReachesGrandchildrenButNotAbandonedChildren(t *testing.T) {
	abandoned := pawl.NewOrchestration[string, string]("abandoned")
	wait := func(ctx *pawl.Context, _ string) (string, error) {
		_, err := mail.Call(ctx, 1)
		if err != nil {
			_, _ = mail.Call(pawl.Detach(ctx), 2) // cleaning up takes a minute
		}
		return "", err
	}
	env := pawltest.New(t, mail.Do(send), child.Do(wait), abandoned.Do(wait),
		family.Do(func(ctx *pawl.Context, _ int) (int, error) {
			_, err := child.Call(ctx, "x", pawl.ID("grandchild"))
			return 0, err
		}),
		parent.Do(func(ctx *pawl.Context, _ string) (string, error) {
			abandoned.Start(ctx, "x", pawl.Abandon(), pawl.ID("left"))
			_, err := family.Call(ctx, 1, pawl.ID("middle"))
			return "", err
		}))
	env.Script(mail, pawltest.Never().Times(2), pawltest.Succeed().After(time.Minute))
	env.Blocked().Cancel("Ada", "enough")
	if _, err := pawltest.Run(env, parent, "x"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	env.WantLines("ChildCancelRequested of 3: requested by Ada: enough", "Cancelled")
	env.Of("middle").WantLines("CancelRequested requested by Ada: enough", "Cancelled")
	env.Of("grandchild").WantLines("CancelRequested requested by Ada: enough", "ActivityScheduled mail 2")
	env.Advance(time.Minute)
	env.Of("grandchild").WantLines("1m0s ActivityCompleted", "Cancelled")
	env.Of("left").WantHistory(`
		1 0s Started           abandoned (child of test) "x"
		2 0s ActivityScheduled mail 1
	`)
}

func TestTakenIDFailsTheCall(t *testing.T) {
	for name, prepare := range map[string]func(*pawltest.Env){
		"by another instance": func(e *pawltest.Env) { pawltest.Start(e.BeforeStart().To("c-1"), child, "mine") },
		"by one that has ended": func(e *pawltest.Env) {
			pawltest.Start(e.BeforeStart().To("c-1"), child, "mine")
			e.Script(mail, pawltest.Succeed().Times(0))
		},
		"by the parent itself": func(e *pawltest.Env) { e.Instance("c-1") },
	} {
		t.Run(name, func(t *testing.T) {
			env := pawltest.New(t, calling(pawl.ID("c-1")), child.Do(mailing), mail.Do(send))
			env.Script(mail, pawltest.Never())
			prepare(env)
			if _, err := pawltest.Run(env, parent, "x"); !errors.Is(err, pawl.ErrIDTaken) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("by an earlier child of the same parent", func(t *testing.T) {
		env := pawltest.New(t, child.Do(mailing), mail.Do(send), parent.Do(func(ctx *pawl.Context, in string) (string, error) {
			if _, err := child.Call(ctx, in, pawl.ID("twice")); err != nil {
				return "", err
			}
			return child.Call(ctx, in, pawl.ID("twice"))
		}))
		if _, err := pawltest.Run(env, parent, "x"); !errors.Is(err, pawl.ErrIDTaken) {
			t.Errorf("%v", err)
		}
	})
}

func TestFakeAndScriptReplaceAChild(t *testing.T) {
	again := parent.Do(func(ctx *pawl.Context, in string) (string, error) {
		var output []string
		for range 4 {
			got, err := child.Call(ctx, in, pawl.Within(2*time.Hour))
			if err != nil {
				got = err.Error()
			}
			output = append(output, got)
		}
		return strings.Join(output, ", "), nil
	})
	env := pawltest.New(t, again)
	env.Fake(child.Do(func(*pawl.Context, string) (string, error) { return "faked", nil }))
	env.Script(child, pawltest.Fail(errBusy).After(time.Minute), pawltest.Never(), pawltest.Succeed().After(time.Hour))
	got, err := pawltest.Run(env, parent, "x")
	if got != "busy, child child timed out after 2h0m0s, faked, faked" && err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if at := env.Now().Format(time.TimeOnly); at != "03:01:00" || len(env.Instances()) != 3 {
		t.Errorf("%s, %q", at, env.Instances())
	}
}

func TestUnboundChildFailsTheTestByName(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) { _, _ = pawltest.Run(pawltest.New(tb, calling(pawl.ID("c-1"))), parent, "x") })
	wantText(t, output, "instance c-1 is of orchestration child, which is neither bound nor faked")
}

func TestDetachedStartRunsInTheEnvIfItsCodeIsBoundAndIsRecordedOtherwise(t *testing.T) {
	launch := parent.Do(func(ctx *pawl.Context, in string) (string, error) {
		return "", child.StartDetached(ctx, "elsewhere", in)
	})
	env := pawltest.New(t, launch)
	if _, err := pawltest.Run(env, parent, "x"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(env.Sent()); got != `[child as elsewhere (detached) "x"]` {
		t.Error(got)
	}
	env = pawltest.New(t, launch, child.Do(func(ctx *pawl.Context, in string) (string, error) {
		return in, pawl.Sleep(ctx, 24*time.Hour)
	}))
	if _, err := pawltest.Run(env, parent, "x"); err != nil || len(env.Sent()) > 0 {
		t.Fatal(err, env.Sent())
	}
	env.Advance(24 * time.Hour)
	if got, err := pawltest.Result(env.Of("elsewhere"), child); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.Of("elsewhere").WantLines("Started child \"x\" by test", "24h0m0s Completed")
}

func TestDivergenceOfAChildFailsTheTestByName(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) {
		calls := 0
		_, _ = pawltest.Run(pawltest.New(tb, mail.Do(send), calling(pawl.ID("c-1")), child.Do(func(ctx *pawl.Context, _ string) (string, error) {
			calls++
			return mail.Call(ctx, calls)
		})), parent, "x")
	})
	wantText(t, output, "after turn 1", "diverges at event 2", "instance c-1:", "ActivityScheduled")
}

func TestDeadlockOfParentAndChildShowsBothHistories(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) {
		_, _ = pawltest.Run(pawltest.New(tb, calling(pawl.ID("c-1")), child.Do(func(ctx *pawl.Context, _ string) (string, error) {
			return answered.Receive(ctx)
		})), parent, "x")
	})
	wantText(t, output, "never comes", "ChildScheduled", "instance c-1:", "(child of test)")
}

func TestReadingAnUnknownInstanceOrExecutionFailsTheTest(t *testing.T) {
	for want, request := range map[string]func(e *pawltest.Env){
		`no instance c-2, only ["test" "c-1"]`:         func(e *pawltest.Env) { e.Of("c-2") },
		"has 1 executions, and no number 2":            func(e *pawltest.Env) { e.Execution(2) },
		"is of orchestration child, and not of parent": func(e *pawltest.Env) { _, _ = pawltest.Result(e.Of("c-1"), parent) },
		"instance c-1 has not ended":                   func(e *pawltest.Env) { _, _ = pawltest.Result(e.Of("c-1"), child) },
		"an Env runs one instance once; make another":  func(e *pawltest.Env) { _, _ = pawltest.Run(e, parent, "x") },
	} {
		output := outputOf(t, func(tb testing.TB) {
			env := pawltest.New(tb, mail.Do(send), child.Do(mailing), parent.Do(func(ctx *pawl.Context, in string) (string, error) {
				child.Start(ctx, in, pawl.ID("c-1"), pawl.Abandon())
				return "", nil
			}))
			env.Script(mail, pawltest.Never())
			_, _ = pawltest.Run(env, parent, "x")
			request(env)
		})
		wantText(t, output, want)
	}
	output := outputOf(t, func(tb testing.TB) { pawltest.New(tb).History() })
	wantText(t, output, "nothing has run yet")
	output = outputOf(t, func(tb testing.TB) {
		env := pawltest.New(tb, mail.Do(send), child.Do(mailing))
		env.Advance(time.Hour) // without an instance under test
		_, _ = pawltest.Run(env, child, "x")
	})
	wantText(t, output, "an Env runs one instance once; make another")
}

func TestChildCancelledInTheTurnThatStartsItBeginsAndIsCancelled(t *testing.T) {
	for _, abandon := range []bool{false, true} {
		env := pawltest.New(t, child.Do(mailing), mail.Do(send), parent.Do(func(ctx *pawl.Context, in string) (string, error) {
			opts := []pawl.ChildOption{pawl.ID("c-1")}
			if abandon {
				opts = append(opts, pawl.Abandon())
			}
			child.Start(ctx, in, opts...).Cancel("changed my mind")
			return in, nil
		}))
		env.Script(mail, pawltest.Never())
		if _, err := pawltest.Run(env, parent, "x"); err != nil || len(env.Instances()) != 2 || len(env.Sent()) > 0 {
			t.Errorf("%v, %q, %q", err, env.Instances(), env.Sent())
		}
		env.Of("c-1").WantLines("Started", "CancelRequested", "changed my mind", "Cancelled")
	}
}

func TestChildIsReplayedAfterEachOfItsTurnsLikeItsParent(t *testing.T) {
	for _, c := range []struct {
		plan func(*pawltest.Env)
		want int // runs of the child's code: one per crash and per check at the end, in addition to the first
	}{
		{func(*pawltest.Env) {}, 1 + 1 + 2},
		{func(e *pawltest.Env) { e.CrashAfter() }, 1 + 2},
		{func(e *pawltest.Env) { e.CrashAfter(1, 2) }, 1 + 1 + 2}, // the child starts with turn 2
		{func(e *pawltest.Env) { e.CrashAfter(); e.At(time.Minute).Crash() }, 1 + 1 + 2},
	} {
		runs := 0
		env := pawltest.New(t, calling(), mail.Do(send), child.Do(func(ctx *pawl.Context, in string) (string, error) {
			runs++
			return mailing(ctx, in)
		}))
		env.Script(mail, pawltest.Succeed().After(time.Hour))
		c.plan(env)
		if got, err := pawltest.Run(env, parent, "x"); got != "sent 7" || err != nil || runs != c.want {
			t.Errorf("%q, %v, %d runs, not %d", got, err, runs, c.want)
		}
	}
}
