package pawltest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/history"
)

// The minutes after the start at which each of three calls has ended; a call takes twenty.
func TestActionsArePausedAndPoliciesSetInVirtualTimeAndOverCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		opts []pawl.ActivityOption
		do   func(env *pawltest.Env, one pawltest.Named)
		want string
	}{
		"paused before the start": {nil, func(env *pawltest.Env, one pawltest.Named) {
			env.BeforeStart().PauseAction(one)
			env.At(30 * time.Minute).ResumeAction(one)
		}, "[50 50 50]"},
		"paused while one runs": {[]pawl.ActivityOption{pawl.Concurrency(1)}, func(env *pawltest.Env, one pawltest.Named) {
			env.At(10 * time.Minute).PauseAction(one)
			env.At(40 * time.Minute).ResumeAction(one)
		}, "[20 60 80]"},
		"never resumed": {[]pawl.ActivityOption{pawl.QueueTimeout(45 * time.Minute), pawl.Concurrency(1)}, func(env *pawltest.Env, one pawltest.Named) {
			env.BeforeStart().PauseAction(one)
		}, "[45 pawl.queue-timeout 45 pawl.queue-timeout 45 pawl.queue-timeout]"},
		"a queue that is cleared": {[]pawl.ActivityOption{pawl.Concurrency(1)}, func(env *pawltest.Env, one pawltest.Named) {
			env.At(10*time.Minute).ClearQueue(one, "")
		}, "[20 10 pawl.queue-cleared 10 pawl.queue-cleared]"},
		"a lower limit": {nil, func(env *pawltest.Env, one pawltest.Named) {
			env.BeforeStart().SetPolicy("action:"+one.Name(), history.Policy{Concurrency: 2})
		}, "[20 20 40]"},
		"a limit that is raised": {[]pawl.ActivityOption{pawl.Concurrency(1)}, func(env *pawltest.Env, one pawltest.Named) {
			env.At(10*time.Minute).SetPolicy("action:"+one.Name(), history.Policy{Concurrency: 3})
		}, "[20 30 30]"},
		"a policy that is deleted": {[]pawl.ActivityOption{pawl.Concurrency(3)}, func(env *pawltest.Env, one pawltest.Named) {
			env.BeforeStart().SetPolicy("action:"+one.Name(), history.Policy{Concurrency: 1})
			env.At(10 * time.Minute).DeletePolicy("action:" + one.Name())
		}, "[20 30 30]"},
	} {
		t.Run(name, func(t *testing.T) {
			for turn := 0; ; turn++ {
				all, one, bindings := press(c.opts...)
				env := pawltest.New(t, bindings...)
				env.Script(one, pawltest.Succeed().After(20*time.Minute).Times(0))
				if turn > 0 {
					env.CrashAfter(turn)
				}
				c.do(env, one)
				got, err := pawltest.Run(env, all, orders("a", "a", "a"))
				if fmt.Sprint(got) != c.want || err != nil {
					t.Fatalf("owner died after turn %d: %v, %v, want %s\n%s", turn, got, err, c.want, env.History())
				}
				if env.Turns() < turn {
					break
				}
			}
		})
	}
}

func TestInstancesOfAPausedOrchestrationWaitForTheirStart(t *testing.T) {
	env := pawltest.New(t, depot.Do(despatchAll), despatch.Do(despatchOne), label.Do(printed))
	env.BeforeStart().PauseAction(despatch)
	env.At(time.Hour / 2).ResumeAction(despatch)
	if sent, err := pawltest.Run(env, depot, []string{"a"}); sent != 1 || err != nil || env.Now().Format(time.TimeOnly) != "00:30:00" {
		t.Errorf("%d, %v at %s", sent, err, env.Now())
	}
}

func TestOperatorRetriesFromTheStart(t *testing.T) {
	env := reminders(t)
	env.Script(mail, pawltest.Succeed(), pawltest.Fail(pawl.Permanent(errBusy)))
	env.At(48*time.Hour).RetryFromStart("Ada", "all over again")
	if _, err := pawltest.Run(env, remind, 3); !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	env.Advance(96 * time.Hour)
	if got, err := pawltest.Result(env, remind); got != "no answer" || err != nil || env.Of("test").Executions() != 2 {
		t.Errorf("%q, %v", got, err)
	}
	env.WantLines("mail 0", "mail 1", "mail 2", "Completed")
}

func TestInvalidPolicyFailsTheTest(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) {
		env := reminders(tb)
		env.At(time.Hour).SetPolicy("action:mail", history.Policy{Paused: true})
		_, _ = pawltest.Run(env, remind, 3)
	})
	if !strings.Contains(output, "policy of action:mail") {
		t.Error(output)
	}
}
