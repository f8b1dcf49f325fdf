package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var (
	mailGuest = pawl.NewActivity[string, string]("remind")
	accepted  = pawl.NewEvent[string]("accepted")
	invite    = pawl.NewOrchestration[string, string]("invite")
	inviting  = pawl.NewStatus[int]()

	// Reminds once a day, for a week.
	inviteBinding = invite.Do(func(ctx *pawl.Context, guest string) (string, error) {
		for day := range 7 {
			if err := inviting.Set(ctx, day); err != nil {
				return "", err
			}
			by, ok, err := accepted.ReceiveWithin(ctx, 24*time.Hour)
			if err != nil || ok {
				return by, err
			}
			if _, err := mailGuest.Call(ctx, guest); err != nil {
				return "", err
			}
		}
		return "no answer", nil
	})
	mailBinding = mailGuest.Do(func(_ context.Context, guest string) (string, error) { return guest, nil })
)

// tb is the *testing.T of a test.
var tb = new(exampleTB)

type exampleTB struct {
	testing.TB

	ends []func()
}

func (*exampleTB) Helper()                   {}
func (x *exampleTB) Cleanup(end func())      { x.ends = append(x.ends, end) }
func (*exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (*exampleTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (*exampleTB) Errorf(f string, a ...any) { fmt.Fprintf(os.Stdout, f+"\n", a...) }

// examples runs the tests, and the cleanups of the examples.
type examples struct{ *testing.M }

func (x examples) Run() int {
	code := x.M.Run()
	for _, end := range tb.ends {
		end()
	}
	return code
}

func ExampleRun() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	fmt.Println(pawltest.Run(env, invite, "Ada")) // a week, in milliseconds
	fmt.Println(env.Now().Format(time.DateOnly))
	// Output:
	// no answer <nil>
	// 2026-01-08
}

func ExampleSend() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Send(env.At(36*time.Hour), accepted, "Ada")
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	fmt.Println(pawltest.Statuses(env, inviting))
	env.WantLines("ActivityScheduled remind", "EventReceived accepted", "Completed")
	// Output:
	// Ada <nil>
	// [0 1]
}

func ExampleEnv_Script() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Script(mailGuest, pawltest.Succeed(), pawltest.Fail(errors.New("no such address")))
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(err)
	// Output: no such address
}

func ExampleEnv_Fake() {
	env := pawltest.New(tb, inviteBinding)
	env.Fake(mailGuest.Do(func(_ context.Context, guest string) (string, error) {
		fmt.Println("remind", guest)
		return guest, nil
	}))
	pawltest.Send(env.At(36*time.Hour), accepted, "Ada")
	_, _ = pawltest.Run(env, invite, "Ada")
	// Output: remind Ada
}

func ExampleMoment_Cancel() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(time.Hour).Cancel("ops", "party is off")
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(err)
	// Output: cancelled: requested by ops: party is off
}

func ExampleReplay() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Send(env.At(36*time.Hour), accepted, "Ada")
	_, _ = pawltest.Run(env, invite, "Ada")
	exported := env.Export() // or the output of pawl history --json

	pawltest.Replay(tb, exported, inviteBinding) // fails the test if the code does not match
	pawltest.EveryPrefix(tb, exported, inviteBinding)
	fmt.Println("replays")
	// Output: replays
}
