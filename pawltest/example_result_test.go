package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

var (
	dinner   = pawl.NewOrchestration[int, int]("dinner")
	register = pawl.NewUpdate[string, int]("register")
	free     = pawl.NewQuery[pawl.None, int]("free")

	// Registers guests while there are seats, for a day.
	dinnerBinding = dinner.Do(func(ctx *pawl.Context, seats int) (int, error) {
		guests := 0
		err := errors.Join(
			free.Handle(ctx, func(pawl.None) (int, error) { return seats - guests, nil }),
			register.Handle(ctx, func(*pawl.Context, string) (int, error) {
				if guests == seats {
					return 0, errors.New("no seats")
				}
				guests++
				return guests, nil
			}),
			pawl.Sleep(ctx, 24*time.Hour))
		return guests, err
	})
)

func ExampleUpdate() {
	env := pawltest.New(tb, dinnerBinding)
	ada := pawltest.Update(env.At(time.Hour), register, "Ada")
	bob := pawltest.Update(env.At(2*time.Hour), register, "Bob")
	_, _ = pawltest.Run(env, dinner, 1)
	fmt.Println(ada.Get())
	fmt.Println(bob.Get())
	// Output:
	// 1 <nil>
	// 0 no seats
}

func ExampleUpdateWithStart() {
	env := pawltest.New(tb, dinnerBinding)
	ada := pawltest.UpdateWithStart(env.BeforeStart().To("garden"), dinner, 10, register, "Ada")
	env.Advance(time.Hour)
	fmt.Println(ada.Get())
	// Output: 1 <nil>
}

func ExampleDeadline() {
	env := pawltest.New(tb, dinnerBinding)
	env.At(time.Hour).Pause("ops", "")
	ada := pawltest.Update(env.At(2*time.Hour), register, "Ada", pawltest.Deadline(time.Minute))
	env.At(3*time.Hour).Resume("ops", "")
	_, _ = pawltest.Run(env, dinner, 1)
	_, err := ada.Get()
	fmt.Println(errors.Is(err, pawl.ErrUpdateExpired))
	// Output: true
}

func ExampleQuery() {
	env := pawltest.New(tb, dinnerBinding)
	pawltest.Update(env.At(time.Hour), register, "Ada")
	_, _ = pawltest.Run(env, dinner, 10)
	fmt.Println(pawltest.Query(env, free, pawl.None{}))
	// Output: 9 <nil>
}

func ExampleStart() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Start(env.At(time.Hour).To("bob"), invite, "Bob", pawltest.RunTimeout(48*time.Hour))
	env.Advance(72 * time.Hour)
	_, err := pawltest.Result(env.Of("bob"), invite)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleResult() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	pawltest.Start(env.BeforeStart().To("bob"), invite, "Bob")
	pawltest.Send(env.At(time.Hour).To("bob"), accepted, "Bob")
	env.Advance(24 * time.Hour)
	fmt.Println(pawltest.Result(env.Of("bob"), invite))
	// Output: Bob <nil>
}

func ExampleJobResult() {
	env := pawltest.New(tb, mailBinding)
	job, err := client.NewJob(mailGuest, "Ada")
	if err != nil {
		panic(err)
	}
	env.BeforeStart().To("mail").RunJob(job)
	env.Advance(time.Minute)
	fmt.Println(pawltest.JobResult(env.Of("mail"), mailGuest))
	// Output: Ada <nil>
}

func ExampleStatuses() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(pawltest.Statuses(env, inviting))
	// Output: [0 1 2 3 4 5 6]
}

func ExampleUnread() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	for _, by := range []string{"Ada", "her brother"} {
		pawltest.Send(env.BeforeStart(), accepted, by)
	}
	_, _ = pawltest.Run(env, invite, "Ada") // it reads the first one
	fmt.Println(pawltest.Unread(env, accepted))
	// Output: [her brother]
}

func ExampleSentTo() {
	env := pawltest.New(tb, invite.Do(func(ctx *pawl.Context, guest string) (string, error) {
		return guest, accepted.Send(ctx, "host", guest+" comes")
	}))
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(pawltest.SentTo(env, "host", accepted))
	// Output: [Ada comes]
}

func ExampleStep_After() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.Script(mailGuest, pawltest.Succeed().After(time.Hour).Times(7)) // each mail takes an hour
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Now().Format(time.DateTime))
	// Output: 2026-01-08 07:00:00
}

func ExampleAfter() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	env.StartWith(pawltest.After(12 * time.Hour))
	pawltest.Send(env.At(time.Hour), accepted, "Ada") // it waits for the start
	_, _ = pawltest.Run(env, invite, "Ada")
	fmt.Println(env.Now().Format(time.TimeOnly))
	// Output: 12:00:00
}

func ExampleEveryPrefix() {
	env := pawltest.New(tb, inviteBinding, mailBinding)
	_, _ = pawltest.Run(env, invite, "Ada")
	pawltest.EveryPrefix(tb, env.Export(), inviteBinding) // as if the code were deployed at any moment
	fmt.Println("fits")
	// Output: fits
}
