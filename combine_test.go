package pawl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

var double = pawl.NewActivity[int, int]("double")

func TestAllWaitsForAllAndJoinsErrorsInOrder(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, n int) ([]int, error) {
		var fs []*pawl.Future[int]
		for i := range n {
			fs = append(fs, double.Start(ctx, i))
		}
		results, err := pawl.All(ctx, fs...)
		if err == nil || err.Error() != "one\nthree" {
			return nil, fmt.Errorf("joined: %w", err)
		}
		return results, nil
	}, 5)
	ids := r.Scheduled("double")
	r.Fail(ids[3], history.Failure{Message: "three"})
	r.Fail(ids[1], history.Failure{Message: "one"})
	for _, i := range []int{4, 0, 2} {
		r.Complete(ids[i], must(author.Result(double).Encode(2*i)))
	}
	if got := r.result(); fmt.Sprint(got) != "[0 0 4 0 8]" {
		t.Fatalf("results %v", got)
	}
}

func TestAnyCancelsNoFuture(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (int, error) {
		a, b := double.Start(ctx, 1), double.Start(ctx, 2)
		first, err := pawl.Any(ctx, a, b)
		if err != nil || first != b || a.Ready() || !b.Ready() {
			return 0, fmt.Errorf("first %v: %w", first, err)
		}
		return a.Get(ctx)
	}, pawl.None{})
	ids := r.Scheduled("double")
	if made := r.Complete(ids[1], must(author.Result(double).Encode(4))); len(made) != 0 {
		t.Fatalf("%d decisions", len(made))
	}
	r.Observe()
	r.Complete(ids[0], must(author.Result(double).Encode(2)))
	if got := r.result(); got != 2 {
		t.Fatalf("got %d", got)
	}
}

func TestSelectOfSeveralReadyFuturesReturnsTheFirst(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (bool, error) {
		bad := pawl.NewActivity[chan int, int]("bad").Start(ctx, nil)
		now := pawl.After(ctx, 0)
		a, err := pawl.Select(ctx, bad, now, now)
		if err != nil || a != pawl.Selectable(bad) {
			return false, fmt.Errorf("first: %w", err)
		}
		b, err := pawl.Select(ctx, now, bad)
		return b == now, err
	}, pawl.None{})
	if !r.result() {
		t.Fatal("the second argument won")
	}
}

func TestSelectEndedByACancellationConsumesNoEvent(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		e := Approved.Next(ctx)
		if err := pawl.Sleep(pawl.Detach(ctx), time.Minute); err != nil {
			return "", err
		}
		_, err := pawl.Select(ctx, e, pawl.After(pawl.Detach(ctx), time.Hour))
		if _, ok := errors.AsType[*pawl.Cancelled](err); !ok {
			return "", fmt.Errorf("select: %w", err)
		}
		a, err := Approved.Receive(pawl.Detach(ctx))
		return a.By, err
	}, pawl.None{})
	r.Send("approved", must(author.Value(Approved).Encode(Approval{By: "finance"})))
	r.Cancel("", "")
	r.Fire()
	if got := r.result(); got != "finance" {
		t.Fatalf("got %q", got)
	}
}

func TestMapBoundsConcurrencyAndKeepsOrder(t *testing.T) {
	const n, limit = 20, 3
	in := make([]int, n)
	for i := range in {
		in[i] = i
	}
	r := orchestrate(t, func(ctx *pawl.Context, in []int) ([]int, error) {
		out, err := pawl.Map(ctx, limit, in, func(ctx *pawl.Context, v int) (int, error) {
			once, err := double.Call(ctx, v)
			if err != nil {
				return -1, fmt.Errorf("element %d: %w", v, err)
			}
			return double.Call(ctx, once)
		})
		if err == nil || err.Error() != "element 7: seven\nelement 9: nine" {
			return nil, fmt.Errorf("joined: %w", err)
		}
		return out, nil
	}, in)
	for !r.X.Ended() {
		ids := r.Scheduled("double")
		if len(ids) > limit {
			t.Fatalf("%d at a time", len(ids))
		}
		id := ids[len(ids)-1]
		switch v := inputOf(r.Driver, double, id); v {
		case 7, 9:
			r.Fail(id, history.Failure{Message: map[int]string{7: "seven", 9: "nine"}[v]})
		default:
			r.Complete(id, must(author.Result(double).Encode(2*v)))
		}
	}
	got := r.result()
	for i, v := range got {
		if want := 4 * i; v != want && i != 7 && i != 9 || (i == 7 || i == 9) && v != -1 {
			t.Fatalf("result %d is %d", i, v)
		}
	}
}

func TestMapOfAnEmptySliceIsEmpty(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, in []int) (int, error) {
		out, err := pawl.Map(ctx, 0, in, func(*pawl.Context, int) (int, error) { panic("called") })
		return len(out), err
	}, nil)
	if r.result() != 0 {
		t.Fatal("a result for an empty slice")
	}
}

func TestMapEndsWhenTheInstanceIsCancelled(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, in []int) ([]int, error) {
		return pawl.Map(ctx, 2, in, func(ctx *pawl.Context, v int) (int, error) { return double.Call(ctx, v) })
	}, []int{1, 2, 3, 4})
	r.Cancel("me", "enough")
	if r.End().Kind() != history.KindCancelled {
		t.Fatalf("ended with %+v", r.End())
	}
	if err := r.failure(); err == nil {
		t.Fatal("no failure")
	}
}

func TestInstanceDescribesTheInstance(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		i := pawl.Instance(ctx)
		pawl.Logger(ctx).Info("not to be seen")
		id := pawl.NewID(ctx)
		if len(id) != 36 || pawl.Rand(ctx).IntN(10) > 9 {
			return "", fmt.Errorf("id %q", id)
		}
		return fmt.Sprint(i.Instance, i.Name, i.Execution, i.Version, pawl.Now(ctx).UnixMilli()), nil
	}, pawl.None{})
	if got := r.result(); got != fmt.Sprint("order-42", "under-test", 0, "", 1_700_000_000_000) {
		t.Fatalf("got %q", got)
	}
}

func TestContextOfAnotherInstanceIsAMisuse(t *testing.T) {
	var leaked *pawl.Context
	first := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (int, error) {
		leaked = ctx
		return double.Call(ctx, 1)
	}, pawl.None{})
	second := orchestrate(t, func(*pawl.Context, pawl.None) (int, error) {
		_, err := pawl.Map(leaked, 1, []int{1}, func(ctx *pawl.Context, v int) (int, error) { return double.Call(ctx, v) })
		_, selected := pawl.Select(leaked, pawl.After(leaked, time.Second))
		_, _, tried := Approved.TryReceive(leaked)
		for _, err := range []error{err, selected, tried, pawl.Sleep(leaked, time.Second)} {
			if _, ok := errors.AsType[*pawl.Misuse](err); !ok {
				return 0, fmt.Errorf("no misuse: %w", err)
			}
		}
		return double.Call(leaked, 2)
	}, pawl.None{})
	if _, ok := second.End().(*history.Failed); !ok || len(first.Scheduled("double")) != 1 {
		t.Fatalf("ended with %+v", second.End())
	}
}

func TestZeroRetryHasDefaults(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (int, error) {
		return double.Call(ctx, 1, pawl.Retry{}, pawl.Within(time.Hour))
	}, pawl.None{})
	var pauses []time.Duration
	for !r.X.Ended() {
		r.Fail(r.Only("double"), history.Failure{Message: "no"})
		if !r.X.Ended() {
			_, at, _ := r.X.NextTimer()
			pauses = append(pauses, time.Duration(at-r.Now)*time.Millisecond)
			r.Fire()
		}
	}
	if got := fmt.Sprint(pauses); got != "[1s 2s 4s 8s]" {
		t.Fatalf("backoffs %s", got)
	}
	if err := r.failure(); err.Error() != "no" {
		t.Fatalf("failed with %v", err)
	}
}

func TestFirstReturnsValueAndIndexOfTheWinnerAndCancelsTheOthers(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		v, i, err := pawl.First(ctx, double.Start(ctx, 1), double.Start(ctx, 2), double.Start(ctx, 3))
		if err != nil {
			return "", err
		}
		none, at, err := pawl.First(ctx, double.Start(ctx, 4))
		return fmt.Sprint(v, i, none, at, err), nil
	}, pawl.None{})
	ids := r.Scheduled("double")
	if made := r.Complete(ids[1], must(author.Result(double).Encode(4))); len(made) != 3 { // two cancellations and the next call
		t.Fatalf("%d decisions", len(made))
	}
	r.Fail(r.Only("double"), history.Failure{Message: "no"})
	if got := r.result(); got != "4 1 0 0 no" {
		t.Fatalf("got %q", got)
	}
}

func TestFirstWithoutAWinnerReturnsIndexMinusOne(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (int, error) {
		_, i, err := pawl.First(ctx, double.Start(ctx, 1))
		if i != -1 {
			return 0, fmt.Errorf("place %d", i)
		}
		return i, err
	}, pawl.None{})
	r.Cancel("me", "enough")
	if r.End().Kind() != history.KindCancelled {
		t.Fatalf("ended with %+v", r.End())
	}
}

func TestAllOrFailReturnsResultsInOrder(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, n int) ([]int, error) {
		var fs []*pawl.Future[int]
		for i := range n {
			fs = append(fs, double.Start(ctx, i))
		}
		none, err := pawl.AllOrFail[int](ctx)
		if err != nil || len(none) != 0 {
			return nil, fmt.Errorf("no futures returned %v: %w", none, err)
		}
		return pawl.AllOrFail(ctx, fs...)
	}, 5)
	ids := r.Scheduled("double")
	for _, i := range []int{4, 0, 2, 1, 3} {
		r.Complete(ids[i], must(author.Result(double).Encode(2*i)))
	}
	if got := r.result(); fmt.Sprint(got) != "[0 2 4 6 8]" {
		t.Fatalf("results %v", got)
	}
}

func TestAllOrFailStopsAtTheFirstErrorAndCancelsTheRest(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, n int) (string, error) {
		var fs []*pawl.Future[int]
		for i := range n {
			fs = append(fs, double.Start(ctx, i))
		}
		results, err := pawl.AllOrFail(ctx, fs...)
		return fmt.Sprint(results, err), nil
	}, 5)
	ids := r.Scheduled("double")
	r.Complete(ids[4], must(author.Result(double).Encode(8)))
	made := r.Fail(ids[3], history.Failure{Message: "three"})
	cancelled := 0
	for _, e := range made {
		if c, ok := e.(*history.ActivityCancelRequested); ok {
			if cancelled++; c.Reason != cancel.LostSelect || c.Text != "another call failed: three" {
				t.Errorf("cancelled with %+v", c)
			}
		}
	}
	if cancelled != 3 {
		t.Errorf("%d were cancelled, want 3", cancelled)
	}
	if got := r.result(); got != "[] three" {
		t.Fatalf("got %q", got)
	}
}

func TestAllOrFailReturnsTheFirstErrorInHistory(t *testing.T) {
	bad := pawl.NewActivity[chan int, int]("bad") // its input does not encode
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (bool, error) {
		_, err := pawl.AllOrFail(ctx, double.Start(ctx, 1), bad.Start(ctx, nil))
		_, again := pawl.AllOrFail(ctx, bad.Start(ctx, nil), bad.Start(ctx, nil))
		return err != nil && again != nil, nil
	}, pawl.None{})
	if !r.result() {
		t.Fatal("an error was ignored")
	}
}

func TestAllOrFailThatFailsConsumesNoEvent(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) (string, error) {
		first, second := Approved.Next(ctx), Approved.Next(ctx)
		if err := pawl.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		if _, err := pawl.AllOrFail(ctx, first, second); !errors.Is(err, pawl.ErrUndecodable) {
			return "", fmt.Errorf("all: %w", err)
		}
		a, err := Approved.Receive(ctx)
		return a.By, err
	}, pawl.None{})
	r.Send("approved", history.Payload{Type: history.TypeJSON, Data: []byte(`"nonsense"`)})
	r.Send("approved", must(author.Value(Approved).Encode(Approval{By: "finance"})))
	r.Fire()
	if got := r.result(); got != "finance" {
		t.Fatalf("got %q", got)
	}
}

func TestAllOrFailEndsWithItsScope(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, _ pawl.None) ([]int, error) {
		return pawl.AllOrFail(ctx, double.Start(ctx, 1), double.Start(ctx, 2))
	}, pawl.None{})
	r.Complete(r.Scheduled("double")[0], must(author.Result(double).Encode(2)))
	r.Cancel("me", "enough")
	if r.End().Kind() != history.KindCancelled {
		t.Fatalf("ended with %+v", r.End())
	}
}

func TestMapOrFailStopsAtTheFirstErrorAndWaitsForTheRest(t *testing.T) {
	tidied := 0
	r := orchestrate(t, func(ctx *pawl.Context, in []int) (string, error) {
		tidied = 0
		out, err := pawl.MapOrFail(ctx, 3, in, func(ctx *pawl.Context, v int) (int, error) {
			w, err := double.Call(ctx, v)
			if _, ok := errors.AsType[*pawl.Cancelled](err); ok {
				tidied++
				return double.Call(pawl.Detach(ctx), -v)
			}
			return w, err
		})
		return fmt.Sprint(out, err, tidied), nil
	}, []int{1, 2, 3, 4, 5})
	ids := r.Scheduled("double")
	r.Complete(ids[0], must(author.Result(double).Encode(2))) // the fourth begins
	r.Fail(ids[1], history.Failure{Message: "two"})
	last := r.Scheduled("double")
	if len(last) != 2 || r.X.Ended() {
		t.Fatalf("%d calls tidy up, want 2", len(last))
	}
	for _, id := range last {
		if v := inputOf(r.Driver, double, id); v != -3 && v != -4 {
			t.Errorf("%d was called", v)
		}
		r.Complete(id, must(author.Result(double).Encode(0)))
	}
	if got := r.result(); got != "[] two 2" {
		t.Fatalf("got %q", got)
	}
}

func TestMapOrFailReturnsResultsInOrder(t *testing.T) {
	r := orchestrate(t, func(ctx *pawl.Context, in []int) ([]int, error) {
		if _, err := pawl.MapOrFail(ctx, 0, nil, func(*pawl.Context, int) (int, error) { panic("called") }); err != nil {
			return nil, err
		}
		return pawl.MapOrFail(ctx, 2, in, func(ctx *pawl.Context, v int) (int, error) { return double.Call(ctx, v) })
	}, []int{1, 2, 3})
	for !r.X.Ended() {
		ids := r.Scheduled("double")
		id := ids[len(ids)-1]
		r.Complete(id, must(author.Result(double).Encode(2*inputOf(r.Driver, double, id))))
	}
	if got := r.result(); fmt.Sprint(got) != "[2 4 6]" {
		t.Fatalf("results %v", got)
	}
}
