package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

// Now is the time of the turn, and so the same on every replay.
func ExampleNow() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (time.Duration, error) {
		begin := pawl.Now(ctx)
		err := pawl.Sleep(ctx, 90*time.Minute)
		return pawl.Now(ctx).Sub(begin), err
	}, pawl.None{})
	// Output: 1h30m0s
}

// The generator yields the same numbers on every replay.
func ExampleRand() {
	runExample(func(ctx *pawl.Context, names []string) (bool, error) {
		pawl.Rand(ctx).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		return len(names) == 3, nil
	}, []string{"Ada", "Bea", "Cleo"})
	// Output: true
}

// Lines that a replay repeats are not logged again.
func ExampleLogger() {
	runExample(func(ctx *pawl.Context, order string) (string, error) {
		pawl.Logger(ctx).Info("order received", "order", order)
		return order, pawl.Sleep(ctx, time.Hour)
	}, "o-17")
	// Output: o-17
}

func ExampleInstance() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		info := pawl.Instance(ctx)
		return fmt.Sprintf("%s, execution %d", info.Instance, info.Execution), nil
	}, pawl.None{})
	// Output: test, execution 1
}

// The key is the same in all attempts of a call, so that another system can recognize a repeated request.
func ExampleInfo() {
	pay := pawl.NewActivity[int, string]("pay")
	keys, attempts := map[string]bool{}, 0
	runExample(func(ctx *pawl.Context, cents int) (string, error) {
		return pay.Call(ctx, cents, pawl.Retry{Attempts: 3, Initial: time.Second})
	}, 500, pay.Do(func(ctx context.Context, _ int) (string, error) {
		info := pawl.Info(ctx)
		keys[info.Key] = true // in a request: the header Idempotency-Key
		if attempts++; attempts < 3 {
			return "", errors.New("busy")
		}
		return fmt.Sprintf("attempt %d, %d key", info.Attempt, len(keys)), nil
	}))
	// Output: attempt 3, 1 key
}

// The program gets the time between the cancellation and the end of the grace period to stop by itself.
func ExampleGraceExpired() {
	encode := pawl.NewActivity[string, string]("encode")
	binding := encode.Do(func(ctx context.Context, film string) (string, error) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), "encode", film)
		if err := cmd.Start(); err != nil {
			return "", err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			return film + ".mp4", err
		case <-pawl.GraceExpired(ctx):
			return "", errors.Join(context.Cause(ctx), cmd.Process.Kill())
		}
	}).WithGrace(30 * time.Second)
	fmt.Println(binding.Name())
	// Output: encode
}

func ExampleFuture_Cancel() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (bool, error) {
		work := slow.Start(ctx, "report")
		work.Cancel("not needed any more") // its worker is notified
		_, err := work.Get(ctx)
		return errors.Is(err, context.Canceled), nil
	}, pawl.None{}, slowBinding)
	// Output: true
}

func ExampleFuture_Ready() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		work := slow.Start(ctx, "report")
		if err := pawl.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		if !work.Ready() { // does not wait
			return "", errors.New("not ready after an hour")
		}
		return work.Get(ctx)
	}, pawl.None{}, slowBinding)
	// Output: report
}

// A caller in another process reads the code and the data of an error.
func ExampleWithData() {
	tooMuch := pawl.NewError("over-limit")
	pay := pawl.NewActivity[int, string]("pay")
	runExample(func(ctx *pawl.Context, cents int) (string, error) {
		_, err := pay.Call(ctx, cents)
		var failure *pawl.Failure
		var limit int
		if errors.Is(err, tooMuch) && errors.As(err, &failure) && failure.DecodeData(&limit) == nil {
			return pay.Call(ctx, limit)
		}
		return "", err
	}, 500, pay.Do(func(_ context.Context, cents int) (string, error) {
		if cents > 300 {
			return "", pawl.WithData(fmt.Errorf("%d cents: %w", cents, tooMuch), 300)
		}
		return fmt.Sprintf("paid %d cents", cents), nil
	}))
	// Output: paid 300 cents
}

var (
	items   = pawl.NewAttribute[int]("items")
	percent = pawl.NewStatus[int]()
)

func ExampleAttribute_Set() {
	env := runExample(func(ctx *pawl.Context, n int) (pawl.None, error) {
		return pawl.None{}, items.Set(ctx, n) // client.ListOptions{Where: "items > 2"} finds the instance
	}, 3)
	fmt.Println(env.Attributes())
	// Output:
	// {}
	// map[items:3]
}

func ExampleAttribute_Get() {
	o := pawl.NewOrchestration[pawl.None, int]("count")
	env := pawltest.New(exampleTB{}, o.Do(func(ctx *pawl.Context, _ pawl.None) (int, error) {
		n, ok, err := items.Get(ctx) // as set by the start
		if err != nil || !ok {
			return 0, err
		}
		return n, items.Clear(ctx)
	}))
	env.With(items.Is(3))
	fmt.Println(pawltest.Run(env, o, pawl.None{}))
	fmt.Println(env.Attributes())
	// Output:
	// 3 <nil>
	// map[]
}

// The attribute of a start is an option: client.Start(ctx, c, order, id, in, client.With(items.Is(3))).
func ExampleAttribute_Is() {
	o := pawl.NewOrchestration[pawl.None, pawl.None]("count")
	env := pawltest.New(exampleTB{}, o.Do(func(*pawl.Context, pawl.None) (pawl.None, error) { return pawl.None{}, nil }))
	env.With(items.Is(3))
	_, _ = pawltest.Run(env, o, pawl.None{})
	fmt.Println(env.Attributes())
	// Output: map[items:3]
}

func ExampleStatus_Set() {
	env := runExample(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
		for _, p := range []int{0, 50, 100} {
			if err := percent.Set(ctx, p); err != nil {
				return pawl.None{}, err
			}
			if err := pawl.Sleep(ctx, time.Minute); err != nil {
				return pawl.None{}, err
			}
		}
		return pawl.None{}, nil
	}, pawl.None{})
	fmt.Println(pawltest.Statuses(env, percent)) // client.WatchStatus receives them as they are set
	// Output:
	// {}
	// [0 50 100]
}

func ExampleStatus_Get() {
	runExample(func(ctx *pawl.Context, _ pawl.None) (string, error) {
		if err := percent.Set(ctx, 50); err != nil {
			return "", err
		}
		p, ok, err := percent.Get(ctx)
		return fmt.Sprint(p, " ", ok), err
	}, pawl.None{})
	// Output: 50 true
}

func ExampleValidateName() {
	fmt.Println(pawl.ValidateName("charge-card"))
	fmt.Println(errors.Is(pawl.ValidateName("charge card"), pawl.ErrBadName))
	// Output:
	// <nil>
	// true
}
