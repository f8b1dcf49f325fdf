package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

func ExampleAwait() {
	runExample(func(ctx *pawl.Context, n int) (int, error) {
		sum, left := 0, n
		for i := range n {
			pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
				got, err := twice.Call(ctx, i)
				sum, left = sum+got, left-1
				return pawl.None{}, err
			})
		}
		err := pawl.Await(ctx, func() bool { return left == 0 }) // siblings share variables without a lock
		return sum, err
	}, 4, twiceBinding)
	// Output: 12
}

func ExamplePermanent() {
	parse := pawl.NewActivity[string, int]("parse")
	env := runExample(func(ctx *pawl.Context, text string) (bool, error) {
		_, err := parse.Call(ctx, text, pawl.Retry{Attempts: 5, Initial: time.Hour})
		return err == nil, nil
	}, "seven", parse.Do(func(_ context.Context, text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, pawl.Permanent(err) // no attempt can succeed
		}
		return n, nil
	}))
	fmt.Println(env.Now().Format(time.TimeOnly)) // without a backoff
	// Output:
	// false
	// 00:00:00
}

func ExampleDetachFor() {
	release := pawl.NewActivity[string, pawl.None]("release")
	o := pawl.NewOrchestration[string, pawl.None]("hold")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, room string) (pawl.None, error) {
		err := pawl.Sleep(ctx, 24*time.Hour)
		if pawl.Err(ctx) != nil { // cancelled: the cleanup may take an hour
			_, undo := release.Call(pawl.DetachFor(ctx, time.Hour), room, pawl.Retry{})
			err = errors.Join(err, undo)
		}
		return pawl.None{}, err
	}), release.Do(func(_ context.Context, room string) (pawl.None, error) {
		fmt.Println("released", room)
		return pawl.None{}, nil
	}))
	env.At(time.Hour).Cancel("ops", "closed")
	_, err := pawltest.Run(env, o, "room 7")
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// released room 7
	// true
}

func ExampleNewID() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (bool, error) {
		a, b := pawl.NewID(ctx), pawl.NewID(ctx) // the same on every replay: keys for requests to other systems
		dice := pawl.Rand(ctx).IntN(6) + 1       // the same on every replay, too
		pawl.Logger(ctx).Info("rolled", "dice", dice)
		return a != b && dice > 0, nil
	}, pawl.None{})
	// Output: true
}

func ExampleReject() {
	search := pawl.NewActivity[string, string]("search", pawl.Concurrency(1), pawl.Reject())
	runExample(func(ctx *pawl.Context, query string) (string, error) {
		first := search.Start(ctx, query)
		_, err := search.Call(ctx, query)
		got, failed := first.Get(ctx)
		return fmt.Sprint(got, ", and over the limit: ", errors.Is(err, pawl.ErrLimited)), failed
	}, "lamps", search.Do(func(context.Context, string) (string, error) { return "3 found", nil }))
	// Output: 3 found, and over the limit: true
}

func ExampleKeepSlot() {
	export := pawl.NewActivity[string, string]("export", pawl.Quota(1000, 24*time.Hour), pawl.Concurrency(1))
	runExample(func(ctx *pawl.Context, table string) (string, error) {
		return export.Call(ctx, table, pawl.Retry{}, pawl.KeepSlot()) // all attempts of one export share one slot
	}, "orders", export.Do(func(_ context.Context, table string) (string, error) { return table + ".csv", nil }))
	// Output: orders.csv
}

func ExampleUpdate_Next() {
	spend := pawl.NewUpdate[int, int]("spend") // answered with the balance
	wallet := pawl.NewOrchestration[int, int]("wallet")
	env := pawltest.New(exampleTB{}, wallet.Do(func(ctx *pawl.Context, balance int) (int, error) {
		for balance > 0 {
			request, err := spend.Next(ctx).Get(ctx)
			if err != nil {
				return balance, err
			}
			if request.Input > balance {
				err = request.Reject(ctx, errors.New("too few"))
			} else {
				balance -= request.Input
				err = request.Answer(ctx, balance)
			}
			if err != nil {
				return balance, err
			}
		}
		return balance, pawl.AwaitUpdates(ctx)
	}))
	first := pawltest.Update(env.At(time.Minute), spend, 30)
	second := pawltest.Update(env.At(time.Hour), spend, 20)
	fmt.Println(pawltest.Run(env, wallet, 20))
	fmt.Println(first.Get())
	fmt.Println(second.Get())
	// Output:
	// 0 <nil>
	// 0 too few
	// 0 <nil>
}

func ExampleSendOrStart() {
	add := pawl.NewEvent[int]("add")
	total := pawl.NewOrchestration[pawl.None, int]("total")
	sum := func(ctx *pawl.Context, _ pawl.None) (int, error) { return add.Receive(ctx) }
	runExample(func(ctx *pawl.Context, n int) (pawl.None, error) {
		return pawl.None{}, pawl.SendOrStart(ctx, total, "total-2026", pawl.None{}, add, n) // starts it only if the id is free
	}, 7, total.Do(sum))
	// Output: {}
}

func ExampleNewNamedStatus() {
	printed := pawl.NewNamedStatus[string]("printed") // one of up to eight, in addition to the one without a name
	o := pawl.NewOrchestration[string, pawl.None]("label")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, box string) (pawl.None, error) {
		return pawl.None{}, printed.Set(ctx, "label of "+box)
	}))
	_, _ = pawltest.Run(env, o, "box 1")
	fmt.Println(pawltest.Statuses(env, printed))
	// Output: [label of box 1]
}

func ExampleAbandon() {
	mail := pawl.NewOrchestration[string, string]("mail")
	runExample(func(ctx *pawl.Context, to string) (string, error) {
		sent := mail.Start(ctx, to, pawl.Abandon()) // continues when this instance ends first
		return sent.Get(ctx)
	}, "Ada", greetBinding, mail.Do(func(ctx *pawl.Context, to string) (string, error) { return greet.Call(ctx, to) }))
	// Output: Hello, Ada
}
