package pawl_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var closing = pawl.NewEvent[string]("closing") // with the name of its sender

func ExampleEvent_Receive() {
	o := pawl.NewOrchestration[pawl.None, string]("shop")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		return closing.Receive(ctx) // waits for as long as necessary
	}))
	pawltest.Send(env.At(8*time.Hour), closing, "Ada")
	fmt.Println(pawltest.Run(env, o, pawl.None{}))
	// Output: Ada <nil>
}

func ExampleEvent_ReceiveWithin() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		by, ok, err := closing.ReceiveWithin(ctx, 8*time.Hour)
		if err != nil {
			return "", err
		}
		if !ok {
			return "not closed within 8 hours", nil
		}
		return "closed by " + by, nil
	}, pawl.None{})
	// Output: not closed within 8 hours
}

func ExampleEvent_TryReceive() {
	o := pawl.NewOrchestration[pawl.None, int]("shop")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, _ pawl.None) (int, error) {
		for hours := 0; ; hours++ {
			if _, closed, err := closing.TryReceive(ctx); closed || err != nil { // does not wait
				return hours, err
			}
			if err := pawl.Sleep(ctx, time.Hour); err != nil { // the work of an hour
				return 0, err
			}
		}
	}))
	pawltest.Send(env.At(150*time.Minute), closing, "Ada")
	fmt.Println(pawltest.Run(env, o, pawl.None{}))
	// Output: 3 <nil>
}

func ExampleEvent_Send() {
	env := runExample(func(ctx *pawl.Context, by string) (pawl.None, error) {
		return pawl.None{}, closing.Send(ctx, "shop-7", by) // stored with the turn, delivered to the other instance
	}, "Ada")
	fmt.Println(pawltest.SentTo(env, "shop-7", closing))
	// Output:
	// {}
	// [Ada]
}

var deposit = pawl.NewUpdate[int, int]("deposit") // answered with the new balance

func ExampleUpdate_Handle() {
	account := pawl.NewOrchestration[int, int]("account")
	env := pawltest.New(exampleTB{}, account.Do(func(ctx *pawl.Context, balance int) (int, error) {
		if err := deposit.Handle(ctx, func(_ *pawl.Context, cents int) (int, error) {
			balance += cents
			return balance, nil
		}); err != nil {
			return 0, err
		}
		_, err := closing.Receive(ctx)
		return balance, err
	}))
	answer := pawltest.Update(env.At(time.Minute), deposit, 50)
	pawltest.Send(env.At(time.Hour), closing, "Ada")
	_, _ = pawltest.Run(env, account, 100)
	fmt.Println(answer.Get())
	// Output: 150 <nil>
}

// Validate rejects updates before they are recorded, and so keeps the history short.
func ExampleUpdate_Validate() {
	account := pawl.NewOrchestration[int, int]("account")
	env := pawltest.New(exampleTB{}, account.Do(func(ctx *pawl.Context, balance int) (int, error) {
		if err := deposit.Validate(ctx, func(cents int) error {
			if cents <= 0 {
				return fmt.Errorf("%d cents: must be positive", cents)
			}
			return nil
		}); err != nil {
			return 0, err
		}
		if err := deposit.Handle(ctx, func(_ *pawl.Context, cents int) (int, error) { return balance + cents, nil }); err != nil {
			return 0, err
		}
		_, err := closing.Receive(ctx)
		return balance, err
	}))
	answer := pawltest.Update(env.At(time.Minute), deposit, -50)
	pawltest.Send(env.At(time.Hour), closing, "Ada")
	_, _ = pawltest.Run(env, account, 100)
	fmt.Println(answer.Get())
	// Output: 0 -50 cents: must be positive
}

// Up to ten handlers run concurrently, here each for a minute.
func ExampleConcurrent() {
	account := pawl.NewOrchestration[pawl.None, pawl.None]("account")
	env := pawltest.New(exampleTB{}, account.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
		if err := deposit.Handle(ctx, func(ctx *pawl.Context, cents int) (int, error) {
			return cents, pawl.Sleep(ctx, time.Minute)
		}, pawl.Concurrent(10)); err != nil {
			return pawl.None{}, err
		}
		_, err := closing.Receive(ctx)
		return pawl.None{}, err
	}))
	first, second := pawltest.Update(env.At(0), deposit, 1), pawltest.Update(env.At(0), deposit, 2)
	pawltest.Send(env.At(61*time.Second), closing, "Ada")
	_, _ = pawltest.Run(env, account, pawl.None{})
	fmt.Println(first.Get())
	fmt.Println(second.Get())
	// Output:
	// 1 <nil>
	// 2 <nil>
}

// Without AwaitUpdates, the update whose handler still runs would be answered with ErrUpdateEnded.
func ExampleAwaitUpdates() {
	account := pawl.NewOrchestration[pawl.None, string]("account")
	env := pawltest.New(exampleTB{}, account.Do(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		if err := deposit.Handle(ctx, func(ctx *pawl.Context, cents int) (int, error) {
			return cents, pawl.Sleep(ctx, time.Hour)
		}); err != nil {
			return "", err
		}
		by, err := closing.Receive(ctx)
		return by, errors.Join(err, pawl.AwaitUpdates(ctx))
	}))
	answer := pawltest.Update(env.At(time.Minute), deposit, 50)
	pawltest.Send(env.At(2*time.Minute), closing, "Ada")
	fmt.Println(pawltest.Run(env, account, pawl.None{}))
	fmt.Println(answer.Get())
	// Output:
	// Ada <nil>
	// 50 <nil>
}

// A query reads the state of the code and changes nothing.
func ExampleQuery_Handle() {
	left := pawl.NewQuery[pawl.None, int]("left")
	o := pawl.NewOrchestration[int, pawl.None]("rounds")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, rounds int) (pawl.None, error) {
		if err := left.Handle(ctx, func(pawl.None) (int, error) { return rounds, nil }); err != nil {
			return pawl.None{}, err
		}
		for ; rounds > 0; rounds-- {
			if err := pawl.Sleep(ctx, time.Hour); err != nil {
				return pawl.None{}, err
			}
		}
		return pawl.None{}, nil
	}))
	env.At(90 * time.Minute).Do(func() { fmt.Println(pawltest.Query(env, left, pawl.None{})) })
	_, _ = pawltest.Run(env, o, 3)
	// Output: 2 <nil>
}
