package pawltest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

// In a test, the first argument is its *testing.T.
func ExampleNew() {
	test := func(t testing.TB) {
		env := pawltest.New(t, inviteBinding, mailBinding)
		if answer, err := pawltest.Run(env, invite, "Ada"); err != nil || answer != "no answer" {
			t.Errorf("%q, %v", answer, err)
		}
	}
	test(tb)
	// Output:
}

// Succeed runs the bound function, here after two failures.
func ExampleSucceed() {
	call := pawl.NewOrchestration[string, string]("call")
	env := pawltest.New(tb, mailBinding, call.Do(func(ctx *pawl.Context, guest string) (string, error) {
		return mailGuest.Call(ctx, guest, pawl.Retry{Attempts: 3, Initial: time.Minute})
	}))
	env.Script(mailGuest, pawltest.Fail(errors.New("busy")).Times(2), pawltest.Succeed())
	fmt.Println(pawltest.Run(env, call, "Ada"))
	fmt.Println(env.Now().Format(time.TimeOnly)) // backoffs of a minute each, the maximum
	// Output:
	// Ada <nil>
	// 00:02:00
}

// The function of the activity is not called.
func ExampleFail() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Script(mailGuest, pawltest.Fail(pawl.Permanent(errors.New("no such address"))))
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(err)
	// Output: no such address
}

func ExampleNever() {
	call := pawl.NewOrchestration[string, string]("call")
	env := pawltest.New(tb, mailBinding, call.Do(func(ctx *pawl.Context, guest string) (string, error) {
		return mailGuest.Call(ctx, guest, pawl.AttemptTimeout(time.Minute))
	}))
	env.Script(mailGuest, pawltest.Never())
	_, err := pawltest.Run(env, call, "Ada")
	fmt.Println(errors.Is(err, pawl.ErrTimeout))
	// Output: true
}

// The second start replaces the instance that has failed, and the third one has no effect.
func ExampleAfterFailure() {
	greet := pawl.NewOrchestration[string, string]("greet")
	env := pawltest.New(tb, inviteBinding, mailBinding, greet.Do(func(_ *pawl.Context, name string) (string, error) {
		if name == "" {
			return "", errors.New("no name")
		}
		return "Hello, " + name, nil
	}))
	for day, name := range []string{"", "Bob", "Eve"} {
		pawltest.Start(env.At(time.Duration(day+1)*24*time.Hour).To("greeting"), greet, name, pawltest.AfterFailure())
	}
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(pawltest.Result(env.Of("greeting"), greet))
	// Output: Hello, Bob <nil>
}

// The second start terminates the instance that waits, and takes its id.
func ExampleTerminateExisting() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Start(env.At(time.Hour).To("guest"), invite, "Bob")
	pawltest.Start(env.At(2*time.Hour).To("guest"), invite, "Eve", pawltest.TerminateExisting())
	pawltest.Send(env.At(3*time.Hour).To("guest"), accepted, "Eve")
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(pawltest.Result(env.Of("guest"), invite))
	// Output: Eve <nil>
}

func ExampleRunTimeout() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.StartWith(pawltest.RunTimeout(36 * time.Hour))
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(errors.Is(err, pawl.ErrRunTimeout), env.Now().Format(time.DateTime))
	// Output: true 2026-01-02 12:00:00
}

// The directory contains histories of production, each written by pawl export: the code of the next deploy has to match all of them.
func ExampleReplayDir() {
	_ = func(t *testing.T) { // TestCodeMatchesRecordedHistories
		pawltest.ReplayDir(t, "testdata/histories", inviteBinding)
	}
	// Output:
}
