package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

// Examples run on pawltest: the real engine, in virtual time.

// exampleTB replaces the *testing.T of a test.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                   {}
func (exampleTB) Cleanup(func())            {}
func (exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (exampleTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (exampleTB) Errorf(f string, a ...any) { fmt.Fprintf(os.Stdout, f+"\n", a...) }

// runExample runs an orchestration and prints its result.
func runExample[In, Out any](fn func(*pawl.Context, In) (Out, error), in In, bindings ...pawl.Binding) *pawltest.Env {
	o := pawl.NewOrchestration[In, Out]("example")
	env := pawltest.New(exampleTB{}, append(bindings, o.Do(fn))...)
	out, err := pawltest.Run(env, o, in)
	if err != nil {
		fmt.Fprintln(os.Stdout, "error:", err)
	} else {
		fmt.Fprintln(os.Stdout, out)
	}
	return env
}

var (
	twice = pawl.NewActivity[int, int]("double")
	slow  = pawl.NewActivity[string, string]("slow")
	greet = pawl.NewActivity[string, string]("greet")

	greetBinding = greet.Do(func(_ context.Context, name string) (string, error) { return "Hello, " + name, nil })
	slowBinding  = slow.Do(func(_ context.Context, s string) (string, error) { return s, nil })
	twiceBinding = twice.Do(func(_ context.Context, n int) (int, error) { return 2 * n, nil })
)

func ExampleNewActivity() {
	upper := pawl.NewActivity[string, string]("upper", pawl.Queue("text"))
	runExample(func(ctx *pawl.Context, s string) (string, error) {
		return upper.Call(ctx, s)
	}, "hello", upper.Do(func(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil }))
	// Output: HELLO
}

func ExampleActivity_Start() {
	runExample(func(ctx *pawl.Context, n int) (int, error) {
		a, b := twice.Start(ctx, n), twice.Start(ctx, n+1) // run concurrently
		x, err := a.Get(ctx)
		if err != nil {
			return 0, err
		}
		y, err := b.Get(ctx)
		return x + y, err
	}, 1, twiceBinding)
	// Output: 6
}

func ExampleNewOrchestration() {
	hello := pawl.NewOrchestration[string, string]("hello")
	env := pawltest.New(exampleTB{}, greetBinding, hello.Do(func(ctx *pawl.Context, name string) (string, error) {
		return greet.Call(ctx, name)
	}))
	fmt.Println(pawltest.Run(env, hello, "Ada"))
	// Output: Hello, Ada <nil>
}

func ExampleOrchestration_Call() {
	child := pawl.NewOrchestration[string, string]("child")
	runExample(func(ctx *pawl.Context, name string) (string, error) {
		return child.Call(ctx, name, pawl.ID("child-of-"+pawl.Instance(ctx).Instance))
	}, "Ada", child.Do(func(ctx *pawl.Context, name string) (string, error) {
		return pawl.Instance(ctx).Instance + " got " + name, nil
	}))
	// Output: child-of-test got Ada
}

func ExampleOrchestration_StartDetached() {
	audit := pawl.NewOrchestration[string, pawl.None]("audit")
	runExample(func(ctx *pawl.Context, order string) (string, error) {
		return "done", audit.StartDetached(ctx, "audit-"+order, order) // runs on, without a parent
	}, "42", audit.Do(func(*pawl.Context, string) (pawl.None, error) { return pawl.None{}, nil }))
	// Output: done
}

func ExampleOrchestration_ContinueAsNew() {
	countdown := pawl.NewOrchestration[int, string]("countdown")
	env := pawltest.New(exampleTB{}, countdown.Do(func(ctx *pawl.Context, n int) (string, error) {
		if n > 0 {
			return countdown.ContinueAsNew(ctx, n-1) // an empty history
		}
		return fmt.Sprintf("execution %d", pawl.Instance(ctx).Execution), nil
	}))
	fmt.Println(pawltest.Run(env, countdown, 3))
	// Output: execution 4 <nil>
}

func ExampleNewEvent() {
	approved := pawl.NewEvent[string]("approved")
	o := pawl.NewOrchestration[pawl.None, string]("order")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		by, ok, err := approved.ReceiveWithin(ctx, 24*time.Hour)
		if err != nil || !ok {
			return "not approved", err
		}
		return "approved by " + by, nil
	}))
	pawltest.Send(env.At(time.Hour), approved, "Ada")
	fmt.Println(pawltest.Run(env, o, pawl.None{}))
	// Output: approved by Ada <nil>
}

func ExampleEvent_Drain() {
	measured := pawl.NewEvent[int]("measured")
	o := pawl.NewOrchestration[pawl.None, []int]("collect")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, _ pawl.None) ([]int, error) {
		if err := pawl.Sleep(ctx, time.Hour); err != nil {
			return nil, err
		}
		return measured.Drain(ctx)
	}))
	pawltest.Send(env.At(time.Minute), measured, 1)
	pawltest.Send(env.At(2*time.Minute), measured, 2)
	fmt.Println(pawltest.Run(env, o, pawl.None{}))
	// Output: [1 2] <nil>
}

func ExampleNewStatus() {
	progress := pawl.NewStatus[string]()
	o := pawl.NewOrchestration[int, pawl.None]("steps")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, n int) (pawl.None, error) {
		for i := range n {
			if err := progress.Set(ctx, fmt.Sprintf("step %d of %d", i+1, n)); err != nil {
				return pawl.None{}, err
			}
			if err := pawl.Sleep(ctx, time.Hour); err != nil {
				return pawl.None{}, err
			}
		}
		return pawl.None{}, nil
	}))
	_, _ = pawltest.Run(env, o, 2)
	fmt.Println(pawltest.Statuses(env, progress))
	// Output: [step 1 of 2 step 2 of 2]
}

func ExampleSelect() {
	env := runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		work, deadline := slow.Start(ctx, "result"), pawl.After(ctx, time.Minute)
		switch first, err := pawl.Select(ctx, work, deadline); {
		case err != nil:
			return "", err
		case first == deadline:
			return "too slow", nil // the activity is cancelled
		}
		return work.Get(ctx)
	}, pawl.None{}, slowBinding)
	env.WantLines("ActivityScheduled slow")
	// Output: result
}

func ExampleFirst() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		winner, i, err := pawl.First(ctx, slow.Start(ctx, "north"), slow.Start(ctx, "south"))
		return fmt.Sprint(winner, " ", i), err
	}, pawl.None{}, slowBinding)
	// Output: north 0
}

func ExampleAny() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (int, error) {
		a, b := twice.Start(ctx, 1), twice.Start(ctx, 2)
		if _, err := pawl.Any(ctx, a, b); err != nil { // one of them is ready, and none is cancelled
			return 0, err
		}
		both, err := pawl.All(ctx, a, b)
		return both[0] + both[1], err
	}, pawl.None{}, twiceBinding)
	// Output: 6
}

func ExampleAll() {
	runExample(func(ctx *pawl.Context, in []int) ([]int, error) {
		futures := make([]*pawl.Future[int], len(in))
		for i, n := range in {
			futures[i] = twice.Start(ctx, n)
		}
		return pawl.All(ctx, futures...)
	}, []int{1, 2, 3}, twiceBinding)
	// Output: [2 4 6]
}

func ExampleAllOrFail() {
	fails := pawl.NewActivity[int, int]("fails")
	runExample(func(ctx *pawl.Context, _ pawl.None) ([]int, error) {
		return pawl.AllOrFail(ctx, twice.Start(ctx, 1), fails.Start(ctx, 2)) // the first error cancels the others
	}, pawl.None{}, twiceBinding, fails.Do(func(context.Context, int) (int, error) { return 0, errors.New("out of stock") }))
	// Output: error: out of stock
}

func ExampleMap() {
	runExample(func(ctx *pawl.Context, in []int) ([]int, error) {
		return pawl.Map(ctx, 2, in, func(ctx *pawl.Context, n int) (int, error) { // two at a time
			return twice.Call(ctx, n)
		})
	}, []int{1, 2, 3}, twiceBinding)
	// Output: [2 4 6]
}

func ExampleMapOrFail() {
	runExample(func(ctx *pawl.Context, in []int) ([]int, error) {
		return pawl.MapOrFail(ctx, 0, in, func(ctx *pawl.Context, n int) (int, error) {
			if n < 0 {
				return 0, fmt.Errorf("%d is negative", n)
			}
			return twice.Call(ctx, n)
		})
	}, []int{1, -2, 3}, twiceBinding)
	// Output: error: -2 is negative
}

func ExampleGo() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		reminders := 0
		reminder := pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
			for {
				if err := pawl.Sleep(ctx, time.Hour); err != nil {
					return pawl.None{}, err
				}
				reminders++
			}
		})
		err := pawl.Sleep(ctx, 150*time.Minute)
		reminder.Cancel("done")
		return fmt.Sprintf("%d reminders", reminders), err
	}, pawl.None{})
	// Output: 2 reminders
}

func ExampleScope() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
			slow.Start(ctx, "not needed") // cancelled at the end of the scope
			return nil
		})
		return "left the scope", err
	}, pawl.None{}, slowBinding)
	// Output: left the scope
}

func ExampleDetach() {
	undo := pawl.NewActivity[string, string]("undo")
	o := pawl.NewOrchestration[string, string]("booking")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, id string) (string, error) {
		err := pawl.Sleep(ctx, time.Hour)
		if err != nil { // cancelled: compensate in a context that is not
			_, undoErr := undo.Call(pawl.Detach(ctx), id)
			return "", errors.Join(err, undoErr)
		}
		return "booked", nil
	}), undo.Do(func(_ context.Context, id string) (string, error) {
		fmt.Println("undo", id)
		return id, nil
	}))
	env.At(time.Minute).Cancel("ops", "wrong customer")
	_, err := pawltest.Run(env, o, "b-1")
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// undo b-1
	// true
}

func ExampleSideEffect() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		flag, err := pawl.SideEffect(ctx, func() (bool, error) { return true, nil }) // recorded, and not read again on replay
		return fmt.Sprint("new checkout: ", flag), err
	}, pawl.None{})
	// Output: new checkout: true
}

func ExampleSleep() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		err := pawl.Sleep(ctx, 30*24*time.Hour) // occupies no worker; virtual time in tests
		return pawl.Now(ctx).Format(time.DateOnly), err
	}, pawl.None{})
	// Output: 2026-01-31
}

func ExamplePatched() {
	runExample(func(ctx *pawl.Context, n int) (int, error) {
		if pawl.Patched(ctx, "double-first") { // false for instances that passed here with the old code
			return twice.Call(ctx, n)
		}
		return n, nil
	}, 4, twiceBinding)
	// Output: 8
}

func ExampleRetry() {
	busy := pawl.NewActivity[string, string]("busy")
	attempts := 0
	runExample(func(ctx *pawl.Context, s string) (string, error) {
		return busy.Call(ctx, s, pawl.Retry{Attempts: 5, Initial: time.Second}, pawl.AttemptTimeout(time.Minute), pawl.Within(time.Hour))
	}, "ok", busy.Do(func(_ context.Context, s string) (string, error) {
		if attempts++; attempts < 3 {
			return "", errors.New("busy")
		}
		return fmt.Sprintf("%s after %d attempts", s, attempts), nil
	}))
	// Output: ok after 3 attempts
}

func ExampleNewError() {
	declined := pawl.NewError("card-declined")
	pay := pawl.NewActivity[int, string]("pay")
	runExample(func(ctx *pawl.Context, cents int) (string, error) {
		_, err := pay.Call(ctx, cents, pawl.Retry{Unless: []*pawl.Error{declined}})
		var data int
		if f := (*pawl.Failure)(nil); errors.As(err, &f) {
			_ = f.DecodeData(&data)
		}
		return fmt.Sprint(errors.Is(err, declined), " ", data), nil
	}, 500, pay.Do(func(context.Context, int) (string, error) {
		return "", pawl.WithData(fmt.Errorf("pay: %w", declined), 300)
	}))
	// Output: true 300
}

func ExampleConcurrency() {
	debit := pawl.NewActivity[string, string]("debit",
		pawl.Concurrency(2), pawl.Rate(10, time.Second), pawl.KeyBy("tenant"),
		pawl.QueueLimit(1000), pawl.QueueTimeout(30*time.Minute))
	fmt.Println(debit.Name())
	// Output: debit
}

func ExampleGroup() {
	payments := pawl.Group("payments", pawl.Concurrency(5))
	charge := pawl.NewActivity[int, string]("charge", payments)
	refund := pawl.NewActivity[int, string]("refund", payments) // each has five slots
	fmt.Println(charge.Name(), refund.Name())
	// Output: charge refund
}

func ExampleEscapeID() {
	id := pawl.EscapeID("order 42/a")
	text, err := pawl.UnescapeID(id)
	fmt.Println(id, text, err, pawl.ValidateID(id))
	// Output: order%2042%2Fa order 42/a <nil> <nil>
}

func ExampleWithInfo() {
	charge := func(ctx context.Context, cents int) (string, error) { // the function of an activity
		return fmt.Sprintf("%d cents with key %s", cents, pawl.Info(ctx).Key), nil
	}
	ctx := pawl.WithInfo(context.Background(), pawl.ActivityInfo{Key: "k-1"})
	fmt.Println(charge(ctx, 100))
	// Output: 100 cents with key k-1 <nil>
}

func ExampleNewUpdate() {
	order := pawl.NewUpdate[int, int]("order") // answered with what is left
	closed := pawl.NewEvent[pawl.None]("closed")
	stock := pawl.NewOrchestration[int, int]("stock")
	env := pawltest.New(exampleTB{}, stock.Do(func(ctx *pawl.Context, left int) (int, error) {
		if err := order.Validate(ctx, func(n int) error {
			if n > left {
				return errors.New("sold out") // nothing is recorded
			}
			return nil
		}); err != nil {
			return 0, err
		}
		if err := order.Handle(ctx, func(_ *pawl.Context, n int) (int, error) {
			left -= n
			return left, nil
		}); err != nil {
			return 0, err
		}
		_, err := closed.Receive(ctx)
		return left, err
	}))
	first := pawltest.Update(env.At(time.Minute), order, 3)
	second := pawltest.Update(env.At(2*time.Minute), order, 3)
	pawltest.Send(env.At(time.Hour), closed, pawl.None{})
	fmt.Println(pawltest.Run(env, stock, 5))
	fmt.Println(first.Get())
	fmt.Println(second.Get())
	// Output:
	// 2 <nil>
	// 2 <nil>
	// 0 sold out
}

func ExampleNewQuery() {
	position := pawl.NewQuery[string, int]("position")
	queue := pawl.NewOrchestration[[]string, pawl.None]("queue")
	env := pawltest.New(exampleTB{}, queue.Do(func(ctx *pawl.Context, names []string) (pawl.None, error) {
		if err := position.Handle(ctx, func(name string) (int, error) { return slices.Index(names, name), nil }); err != nil {
			return pawl.None{}, err
		}
		return pawl.None{}, pawl.Sleep(ctx, time.Hour)
	}))
	env.At(time.Minute).Do(func() { fmt.Println(pawltest.Query(env, position, "Bea")) })
	_, _ = pawltest.Run(env, queue, []string{"Ada", "Bea"})
	// Output: 1 <nil>
}

func ExampleNewAttribute() {
	customer := pawl.NewAttribute[string]("customer") // client.ListOptions{Where: `customer = acme`} finds the instance
	env := runExample(func(ctx *pawl.Context, name string) (pawl.None, error) {
		return pawl.None{}, customer.Set(ctx, name)
	}, "acme")
	fmt.Println(env.Attributes())
	// Output:
	// {}
	// map[customer:acme]
}

func ExampleCompensations() {
	booked := pawl.NewActivity[string, string]("book")
	undone := pawl.NewActivity[string, string]("undo")
	runExample(func(ctx *pawl.Context, trip string) (_ string, err error) {
		var undo pawl.Compensations
		defer undo.Run(ctx, &err)
		if _, err := booked.Call(ctx, trip); err != nil {
			return "", err
		}
		undo.Add(func(ctx *pawl.Context) error {
			_, err := undone.Call(ctx, trip)
			return err
		})
		return "", errors.New("no hotel")
	}, "Rome",
		booked.Do(func(_ context.Context, what string) (string, error) { return what, nil }),
		undone.Do(func(_ context.Context, what string) (string, error) { fmt.Println("cancel", what); return what, nil }))
	// Output:
	// cancel Rome
	// error: no hotel
}
