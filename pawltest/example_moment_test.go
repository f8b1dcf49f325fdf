package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// weekly has a mail sent on Mondays at nine.
func weekly() client.Schedule {
	job, err := client.NewJob(mailGuest, "Ada")
	if err != nil {
		panic(err)
	}
	return client.Schedule{Times: client.Times{Cron: []string{"0 9 * * MON"}}, Run: job}
}

func ExampleMoment_BackfillSchedule() {
	env := pawltest.New(tb, mailBinding)
	env.BeforeStart().To("weekly").CreateSchedule(weekly())
	env.At(time.Hour).To("weekly").BackfillSchedule(
		time.Date(2025, 12, 20, 0, 0, 0, 0, time.UTC), time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC))
	env.Advance(24 * time.Hour)
	fmt.Println(env.Instances())
	// Output: [weekly weekly@2025-12-22T09:00:00Z weekly@2025-12-29T09:00:00Z]
}

func ExampleMoment_ClearQueue() {
	one := pawl.NewActivity[string, string]("remind", pawl.Concurrency(1))
	env := pawltest.New(tb, mailBinding, invite.Do(func(ctx *pawl.Context, guest string) (string, error) {
		first, second := one.Start(ctx, guest), one.Start(ctx, guest)
		if _, err := second.Get(ctx); !errors.Is(err, pawl.ErrQueueCleared) {
			return "", err
		}
		return first.Get(ctx)
	}))
	env.Script(mailGuest, pawltest.Succeed().After(time.Hour))
	env.At(time.Minute).ClearQueue(mailGuest, "")
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	// Output: Ada <nil>
}

func ExampleMoment_Crash() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.CrashAfter()                                                 // after no turn
	env.At(36 * time.Hour).Crash()                                   // but here
	pawltest.Send(env.At(48*time.Hour-time.Second), accepted, "Ada") // the next process receives it
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	// Output: Ada <nil>
}

func ExampleMoment_CreateSchedule() {
	env := pawltest.New(tb, mailBinding)
	env.BeforeStart().To("weekly").CreateSchedule(weekly())
	env.Advance(14 * 24 * time.Hour)
	fmt.Println(env.Instances())
	// Output: [weekly weekly@2026-01-05T09:00:00Z weekly@2026-01-12T09:00:00Z]
}

func ExampleMoment_DeletePolicy() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.BeforeStart().SetPolicy("action:remind", history.Policy{Rate: 1, RateWindow: (48 * time.Hour).Milliseconds(), QueueTimeout: -1})
	env.At(80 * time.Hour).DeletePolicy("action:remind")
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Now().Format(time.DateTime))
	// Output: 2026-01-09 00:00:00
}

// Instances that have begun with the old code are replayed with the new code, which must fit.
func ExampleMoment_Deploy() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(36 * time.Hour).Deploy(mailGuest.Do(func(_ context.Context, guest string) (string, error) {
		return "", pawl.Permanent(errors.New("no such address"))
	}))
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(err)
	// Output: no such address
}

func ExampleMoment_Do() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(60 * time.Hour).Do(func() { env.WantLines("ActivityCompleted", "ActivityCompleted") })
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	// Output: no answer <nil>
}

// As a client does that repeats a message without an acknowledgement.
func ExampleMoment_ID() {
	env := pawltest.New(tb, invite.Do(func(ctx *pawl.Context, _ string) (string, error) {
		if err := pawl.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		all, err := accepted.Drain(ctx)
		return fmt.Sprint(all), err
	}))
	for range 2 {
		pawltest.Send(env.At(time.Minute).ID("m-1"), accepted, "Ada")
	}
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	// Output: [Ada] <nil>
}

func ExampleMoment_Import() {
	production := pawltest.New(tb, inviteBinding) // an export of pawl export
	pawltest.Send(production.Blocked(), accepted, "Ada")
	_, _ = pawltest.Run(production, invite, "Ada")

	env := pawltest.New(tb, inviteBinding)
	env.BeforeStart().To("copy").Import(production.Export())
	env.Advance(time.Minute)
	fmt.Println(pawltest.Result(env.Of("copy"), invite))
	// Output: Ada <nil>
}

func ExampleMoment_Pause() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(36*time.Hour).Pause("ops", "check the address")
	env.At(90*time.Hour).Resume("ops", "")
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Now().Format(time.DateTime))
	// Output: 2026-01-09 18:00:00
}

func ExampleMoment_PauseAction() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(12 * time.Hour).PauseAction(mailGuest)
	env.At(24*time.Hour + 30*time.Minute).ResumeAction(mailGuest)
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Now().Format(time.DateTime))
	// Output: 2026-01-08 00:30:00
}

func ExampleMoment_PauseSchedule() {
	env := pawltest.New(tb, mailBinding)
	env.BeforeStart().To("weekly").CreateSchedule(weekly())
	env.At(24 * time.Hour).To("weekly").PauseSchedule("holidays")
	env.At(8 * 24 * time.Hour).To("weekly").ResumeSchedule("")
	env.Advance(14 * 24 * time.Hour)
	fmt.Println(env.Instances())
	// Output: [weekly weekly@2026-01-12T09:00:00Z]
}

func ExampleMoment_Purge() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(36 * time.Hour).Purge(true) // also if it runs
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(err)
	// Output: cancelled: purged by test
}

func ExampleMoment_Resume() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(12*time.Hour).Pause("ops", "check the address")
	pawltest.Send(env.At(13*time.Hour), accepted, "Ada") // kept until the resumption
	env.At(20*time.Hour).Resume("ops", "it is right")
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	fmt.Println(env.Now().Format(time.DateTime))
	// Output:
	// Ada <nil>
	// 2026-01-01 20:00:00
}

func ExampleMoment_ResumeAction() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.BeforeStart().PauseAction(mailGuest)
	env.At(36 * time.Hour).ResumeAction(mailGuest) // too late: a call waits for an hour at most, unless its policy allows more
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(errors.Is(err, pawl.ErrQueueTimeout), env.Now().Format(time.DateTime))
	// Output: true 2026-01-02 01:00:00
}

func ExampleMoment_ResumeSchedule() {
	env := pawltest.New(tb, mailBinding)
	env.BeforeStart().To("weekly").CreateSchedule(weekly())
	env.At(time.Hour).To("weekly").PauseSchedule("holidays")
	env.At(10 * 24 * time.Hour).To("weekly").ResumeSchedule("back")
	env.Advance(11 * 24 * time.Hour)
	s := env.Schedule("weekly")
	fmt.Println(s.Schedule.Paused, s.Next.Format(time.DateOnly)) // the time of the pause is not made up for
	// Output: false 2026-01-12
}

func ExampleMoment_Retry() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Script(mailGuest, pawltest.Fail(errors.New("no such address")))
	_, err := pawltest.Run(env, invite, "Ada")
	env.At(48*time.Hour).Retry("ops", "address corrected") // the second mail succeeds
	env.Advance(8 * 24 * time.Hour)
	got, retried := pawltest.Result(env, invite)
	fmt.Println(err, "then", got, retried)
	// Output: no such address then no answer <nil>
}

func ExampleMoment_RetryFromStart() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(36*time.Hour).Cancel("Ada", "on holiday")
	_, _ = pawltest.Run(env, invite, "Ada")
	env.At(10*24*time.Hour).RetryFromStart("Ada", "back")
	env.Advance(20 * 24 * time.Hour)
	fmt.Println(pawltest.Result(env, invite))
	fmt.Println(env.Of("test").Executions(), "executions")
	// Output:
	// no answer <nil>
	// 2 executions
}

func ExampleMoment_Rewind() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	_, _ = pawltest.Run(env, invite, "Ada")
	env.At(9*24*time.Hour).Rewind(2, "ops", "the mails were lost") // to the first day
	env.Advance(8 * 24 * time.Hour)
	fmt.Println(env.Of("test").Executions(), "executions")
	// Output: 2 executions
}

func ExampleMoment_RunJob() {
	env := pawltest.New(tb, mailBinding)
	job, err := client.NewJob(mailGuest, "Ada", client.After(time.Hour))
	if err != nil {
		panic(err)
	}
	env.BeforeStart().To("mail-1").RunJob(job)
	env.Advance(2 * time.Hour)
	fmt.Println(pawltest.JobResult(env.Of("mail-1"), mailGuest))
	// Output: Ada <nil>
}

// One mail in two days, whatever the code declares.
func ExampleMoment_SetPolicy() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.BeforeStart().SetPolicy("action:remind", history.Policy{Rate: 1, RateWindow: (48 * time.Hour).Milliseconds(), QueueTimeout: -1})
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Now().Format(time.DateOnly))
	// Output: 2026-01-14
}

func ExampleMoment_StartBatch() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Start(env.BeforeStart().To("bob"), invite, "Bob")
	env.At(time.Hour).To("call-off").StartBatch(client.Batch{Where: "orchestration = invite", Verb: client.BatchCancel, Reason: "party is off"})
	_, err := pawltest.Run(env, invite, "Ada")
	env.Advance(time.Hour)
	_, bob := pawltest.Result(env.Of("bob"), invite)
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(bob, context.Canceled))
	// Output: true true
}

// A pause that stops also cancels the activities of the instance; Resume begins them again.
func ExampleMoment_Stop() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Script(mailGuest, pawltest.Never())
	env.At(36*time.Hour).Stop("ops", "the mail server hangs")
	env.At(37*time.Hour).Resume("ops", "")
	fmt.Println(pawltest.Run(env, invite, "Ada"))
	// Output: no answer <nil>
}

func ExampleMoment_Terminate() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.At(36*time.Hour).Terminate("ops", "wrong guest")
	_, err := pawltest.Run(env, invite, "Ada")
	fmt.Println(err)
	// Output: cancelled: terminated by ops: wrong guest
}

func ExampleMoment_To() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Instance("ada")
	both := env.At(36 * time.Hour)
	pawltest.Start(env.BeforeStart().To("bob"), invite, "Bob")
	pawltest.Send(both, accepted, "Ada")
	pawltest.Send(both.To("bob"), accepted, "Bob")
	ada, _ := pawltest.Run(env, invite, "Ada")
	env.Advance(48 * time.Hour)
	bob, _ := pawltest.Result(env.Of("bob"), invite)
	fmt.Println(ada, bob)
	// Output: Ada Bob
}

func ExampleMoment_TriggerSchedule() {
	env := pawltest.New(tb, mailBinding)
	env.BeforeStart().To("weekly").CreateSchedule(weekly())
	env.At(time.Hour).To("weekly").TriggerSchedule()
	env.Advance(2 * time.Hour)
	fmt.Println(env.Instances())
	// Output: [weekly weekly@2026-01-01T01:00:00Z]
}
