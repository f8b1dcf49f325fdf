package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

type invoice struct {
	Tenant string `json:"tenant"`
	Number int    `json:"number"`
}

// billAll bills the invoices concurrently, and returns how many have failed because they would have waited at a limit.
func billAll(bill pawl.Activity[invoice, int], all ...invoice) (pawl.Binding, func(*pawl.Context, pawl.None) (int, error)) {
	do := bill.Do(func(_ context.Context, in invoice) (int, error) { return in.Number, nil })
	return do, func(ctx *pawl.Context, _ pawl.None) (int, error) {
		futures := make([]*pawl.Future[int], len(all))
		for i, in := range all {
			futures[i] = bill.Start(ctx, in)
		}
		rejected := 0
		for _, f := range futures {
			if _, err := f.Get(ctx); errors.Is(err, pawl.ErrQueueFull) || errors.Is(err, pawl.ErrQueueTimeout) {
				rejected++
			} else if err != nil {
				return 0, err
			}
		}
		return rejected, nil
	}
}

// The third call is admitted a minute after the first one.
func ExampleRate() {
	bill := pawl.NewActivity[invoice, int]("bill", pawl.Rate(2, time.Minute))
	binding, run := billAll(bill, invoice{Number: 1}, invoice{Number: 2}, invoice{Number: 3})
	env := runExample(run, pawl.None{}, binding)
	fmt.Println(env.Now().Format(time.TimeOnly))
	// Output:
	// 0
	// 00:01:00
}

// A contract allows 100,000 calls a day.
func ExampleQuota() {
	bill := pawl.NewActivity[invoice, int]("bill", pawl.Quota(100_000, 24*time.Hour))
	binding, run := billAll(bill, invoice{Number: 1}, invoice{Number: 2})
	env := runExample(run, pawl.None{}, binding)
	fmt.Println(env.Now().Format(time.TimeOnly))
	// Output:
	// 0
	// 00:00:00
}

// Each tenant has a limit of its own: the calls of acme wait for each other, and the one of initech does not wait for them.
func ExampleKeyBy() {
	bill := pawl.NewActivity[invoice, int]("bill", pawl.KeyBy("tenant"), pawl.Rate(1, time.Minute))
	binding, run := billAll(bill, invoice{Tenant: "acme", Number: 1}, invoice{Tenant: "acme", Number: 2}, invoice{Tenant: "initech", Number: 3})
	env := runExample(run, pawl.None{}, binding)
	fmt.Println(env.Now().Format(time.TimeOnly))
	// Output:
	// 0
	// 00:01:00
}

// One call is admitted, one waits, and the third one fails with ErrQueueFull.
func ExampleQueueLimit() {
	bill := pawl.NewActivity[invoice, int]("bill", pawl.Rate(1, time.Minute), pawl.QueueLimit(1))
	binding, run := billAll(bill, invoice{Number: 1}, invoice{Number: 2}, invoice{Number: 3})
	runExample(run, pawl.None{}, binding)
	// Output: 1
}

// The second call fails with ErrQueueTimeout after it has waited for 30 minutes.
func ExampleQueueTimeout() {
	bill := pawl.NewActivity[invoice, int]("bill", pawl.Rate(1, time.Hour), pawl.QueueTimeout(30*time.Minute))
	binding, run := billAll(bill, invoice{Number: 1}, invoice{Number: 2})
	env := runExample(run, pawl.None{}, binding)
	fmt.Println(env.Now().Format(time.TimeOnly))
	// Output:
	// 1
	// 00:30:00
}

func ExampleAttemptTimeout() {
	o := pawl.NewOrchestration[string, string]("fetch")
	env := pawltest.New(exampleTB{}, slowBinding, o.Do(func(ctx *pawl.Context, page string) (string, error) {
		return slow.Call(ctx, page, pawl.AttemptTimeout(time.Minute), pawl.Retry{Attempts: 3, Initial: time.Second})
	}))
	env.Script(slow, pawltest.Never(), pawltest.Succeed()) // the first attempt never ends
	fmt.Println(pawltest.Run(env, o, "page"))
	fmt.Println(env.Now().Format(time.TimeOnly))
	// Output:
	// page <nil>
	// 00:01:01
}

func ExampleWithin() {
	o := pawl.NewOrchestration[string, string]("fetch")
	env := pawltest.New(exampleTB{}, slowBinding, o.Do(func(ctx *pawl.Context, page string) (string, error) {
		return slow.Call(ctx, page, pawl.Within(time.Hour), pawl.Retry{Attempts: 1000}) // all attempts together
	}))
	env.Script(slow, pawltest.Fail(errors.New("busy")).Times(1000))
	_, err := pawltest.Run(env, o, "page")
	fmt.Println(errors.Is(err, pawl.ErrTimeout), env.Now().Format(time.TimeOnly))
	// Output: true 01:00:00
}
