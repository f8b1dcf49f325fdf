package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

var (
	party   = pawl.NewAttribute[string]("party")
	renewal = pawl.NewOrchestration[int, string]("renewal")

	// Continues as new every year.
	renewalBinding = renewal.Do(func(ctx *pawl.Context, year int) (string, error) {
		if err := pawl.Sleep(ctx, 365*24*time.Hour); err != nil {
			return "", err
		}
		return renewal.ContinueAsNew(ctx, year+1)
	})
)

func ExampleEnv_Advance() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Start(env.At(48*time.Hour).To("bob"), invite, "Bob")
	_, _ = pawltest.Run(env, invite, "Ada")
	env.Advance(48 * time.Hour) // Bob's week ends two days later
	fmt.Println(pawltest.Result(env.Of("bob"), invite))
	// Output: no answer <nil>
}

// A loop over all turns finds the turn after which a cancellation is not handled.
func ExampleEnv_AfterTurn() {
	for turn := 1; ; turn++ {
		env := pawltest.New(tb, inviteBinding, mailBinding)
		env.AfterTurn(turn).Cancel("ops", "party is off")
		_, err := pawltest.Run(env, invite, "Ada")
		if env.Turns() < turn {
			break
		}
		if !errors.Is(err, context.Canceled) && turn < env.Turns() {
			fmt.Println("not cancelled after turn", turn)
		}
	}
	// Output:
}

func ExampleEnv_At() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(60 * time.Hour).Do(func() { fmt.Println(pawltest.Statuses(env, inviting)) })
	_, _ = pawltest.Run(env, invite, "Ada")
	// Output: [0 1 2]
}

func ExampleEnv_Attributes() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.With(party.Is("birthday"))
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Attributes())
	// Output: map[party:birthday]
}

func ExampleEnv_Batch() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(time.Hour).To("call-off").StartBatch(client.Batch{Where: "orchestration = invite", Verb: client.BatchCancel})
	_, err := pawltest.Run(env, invite, "Ada")
	env.Advance(time.Hour)
	fmt.Println(env.Batch("call-off").Sent, errors.Is(err, context.Canceled))
	// Output: 1 true
}

// The answer precedes the invitation, and waits for it.
func ExampleEnv_BeforeStart() {
	env := pawltest.New(tb, inviteBinding)
	pawltest.Send(env.BeforeStart(), accepted, "Ada")
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	// Output: Ada <nil>
}

// Without a time: once the orchestration waits.
func ExampleEnv_Blocked() {
	env := pawltest.New(tb, inviteBinding)
	pawltest.Send(env.Blocked(), accepted, "Ada")
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	fmt.Println(env.Now().Format(time.DateTime))
	// Output:
	// Ada <nil>
	// 2026-01-01 00:00:00
}

// By default the process crashes after every turn, so that the code is replayed each time.
func ExampleEnv_CrashAfter() {
	runs := 0
	env := pawltest.New(tb, mailBinding, invite.Do(func(ctx *pawl.Context, guest string) (string, error) {
		runs++
		return mailGuest.Call(ctx, guest)
	}))
	env.CrashAfter() // never
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(runs, "runs, two of them to check that the history replays")
	// Output: 3 runs, two of them to check that the history replays
}

func ExampleEnv_Execution() {
	env := pawltest.New(tb, renewalBinding)
	env.At(400*24*time.Hour).Cancel("Ada", "moving out")
	_, _ = pawltest.Run(env, renewal, 2026)
	env.Execution(1).WantLines("Started renewal 2026", "ContinuedAsNew 2027")
	env.WantLines("Started renewal 2027", "Cancelled")
	// Output:
}

// The export of a test is a file like that of pawl export: keep it, and replay it with later code.
func ExampleEnv_Export() {
	env := pawltest.New(tb, inviteBinding)
	pawltest.Send(env.BeforeStart(), accepted, "Ada")
	_, _ = pawltest.Run(env, invite, "Ada")
	pawltest.Replay(tb, env.Export(), inviteBinding)
	// Output:
}

func ExampleEnv_History() {
	env := pawltest.New(tb, inviteBinding)
	pawltest.Send(env.BeforeStart(), accepted, "Ada")
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(strings.Count(env.History(), "TimerScheduled"), "timer")
	// Output: 1 timer
}

func ExampleEnv_Instance() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Instance("invite-ada")
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Instances())
	// Output: [invite-ada]
}

func ExampleEnv_Instances() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Start(env.At(time.Hour).To("bob"), invite, "Bob")
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Instances())
	// Output: [test bob]
}

// For an instance that runs forever the bound is as good an end of a test as any.
func ExampleEnv_MaxExecutions() {
	env := pawltest.New(tb, renewalBinding)
	env.MaxExecutions(10)
	_, err := pawltest.Run(env, renewal, 2026)
	var endless *pawltest.Endless
	fmt.Println(errors.As(err, &endless), endless.Executions)
	// Output: true 10
}

func ExampleEnv_Now() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Script(mailGuest, pawltest.Succeed().After(time.Hour).Times(0))
	_, _ = pawltest.Run(env, invite, "Ada") // seven days, and seven mails of an hour
	fmt.Println(env.Now().Format(time.DateTime))
	// Output: 2026-01-08 07:00:00
}

func ExampleEnv_Of() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	bob := env.At(time.Hour).To("bob")
	pawltest.Start(bob, invite, "Bob")
	pawltest.Send(bob, accepted, "Bob")
	_, _ = pawltest.Run(env, invite, "Ada")
	env.Of("bob").WantLines("EventReceived accepted", "Completed")
	fmt.Println(pawltest.Result(env.Of("bob"), invite))
	// Output: Bob <nil>
}

func ExampleEnv_Schedule() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	start, err := client.NewScheduleStart(invite, "Ada")
	if err != nil {
		panic(err)
	}
	env.BeforeStart().To("weekly").CreateSchedule(client.Schedule{Times: client.Times{Cron: []string{"0 9 * * MON"}}, Start: start})
	env.Advance(10 * 24 * time.Hour)
	fmt.Println(env.Schedule("weekly").Next.Format(time.DateTime))
	// Output: 2026-01-12 09:00:00
}

// Messages to instances that the Env does not have are recorded.
func ExampleEnv_Sent() {
	env := pawltest.New(tb, invite.Do(func(ctx *pawl.Context, guest string) (string, error) {
		return guest, accepted.Send(ctx, "kitchen", guest)
	}))
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Sent(), pawltest.SentTo(env, "kitchen", accepted))
	// Output: [accepted to kitchen "Ada"] [Ada]
}

func ExampleEnv_StartWith() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.StartWith(pawltest.After(12*time.Hour), pawltest.RunTimeout(36*time.Hour))
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(errors.Is(err, pawl.ErrRunTimeout), env.Now().Format(time.DateOnly))
	// Output: true 2026-01-03
}

func ExampleEnv_Turns() {
	env := pawltest.New(tb, inviteBinding)
	pawltest.Send(env.Blocked(), accepted, "Ada")
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Turns(), "turns: the start, and the event")
	// Output: 2 turns: the start, and the event
}

func ExampleEnv_Version() {
	greeting := func(text string) func(*pawl.Context, string) (string, error) {
		return func(_ *pawl.Context, guest string) (string, error) { return text + guest, nil }
	}
	env := pawltest.New(tb, invite.Do(greeting("Dear "), pawl.Version("1")), invite.Do(greeting("Hi "), pawl.Version("2")))
	env.Version("1")
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	// Output: Dear Ada <nil>
}

func ExampleEnv_WantHistory() {
	env := pawltest.New(tb, inviteBinding)
	pawltest.Send(env.BeforeStart(), accepted, "Ada")
	_, _ = pawltest.Run(env, invite, "Ada")
	env.WantHistory(`
		1 0s Started invite "Ada" by test
		2 0s TimerScheduled for 2026-01-02 00:00:00.000 UTC
		3 0s EventReceived accepted "Ada"
		4 0s TimerCancelled of 2
		5 0s Completed "Ada"
	`)
	// Output:
}

func ExampleEnv_WantLines() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	_, _ = pawltest.Run(env, invite, "Ada")
	env.WantLines("24h0m0s ActivityScheduled remind", "168h0m0s ActivityScheduled remind", `Completed "no answer"`)
	// Output:
}

func ExampleEnv_With() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.With(party.Is("birthday"))
	env.At(time.Hour).To("call-off").StartBatch(client.Batch{Where: "party = birthday", Verb: client.BatchCancel})
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(errors.Is(err, context.Canceled))
	// Output: true
}
