package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// throughHistory encodes and decodes an error several times, as when it passes from an activity to its orchestration and to the parent.
func throughHistory(err error, times int) error {
	for range times {
		var f history.Failure
		if err := json.Unmarshal(must(json.Marshal(author.ToFailure(err))), &f); err != nil {
			panic(err)
		}
		err = &pawl.Failure{Failure: f}
	}
	return err
}

var errOther = pawl.NewError("other")

func TestSentinelsSurviveHistoryHoweverTheyAreWrapped(t *testing.T) {
	for name, err := range map[string]error{
		"bare":           ErrDeclined,
		"wrapped":        fmt.Errorf("bank: %w", ErrDeclined),
		"joined":         errors.Join(io.EOF, ErrDeclined),
		"joined first":   errors.Join(errOther, ErrDeclined),
		"deep":           fmt.Errorf("a: %w", errors.Join(fmt.Errorf("b: %w", pawl.Permanent(ErrDeclined)))),
		"with data":      pawl.WithData(ErrDeclined, order),
		"declared twice": pawl.NewError("card-declined"),
		"in a failure":   fmt.Errorf("outer: %w", throughHistory(errors.Join(errOther, ErrDeclined), 1)),
	} {
		for times := 1; times <= 3; times++ {
			got := throughHistory(err, times)
			if !errors.Is(got, ErrDeclined) || errors.Is(got, ErrNotApproved) || got.Error() != err.Error() {
				t.Errorf("%s, %d times: %v", name, times, got)
			}
		}
	}
	if got := throughHistory(errors.Join(errOther, ErrDeclined), 2); !errors.Is(got, errOther) {
		t.Errorf("the first of two: %v", got)
	}
}

func TestErrorWithoutASentinelHasItsTextAndNoCode(t *testing.T) {
	var f *pawl.Failure
	if err := throughHistory(io.ErrUnexpectedEOF, 2); !errors.As(err, &f) || f.Code != "" || err.Error() != "unexpected EOF" {
		t.Fatalf("%v, %+v", err, f)
	}
}

func TestCancellationSurvivesHistory(t *testing.T) {
	want := &pawl.Cancelled{Reason: cancel.LostSelect, By: "me", Text: "too slow", At: time.Unix(1, 0).UTC()}
	got := throughHistory(fmt.Errorf("copy: %w", want), 2)
	var c *pawl.Cancelled
	if !errors.Is(got, context.Canceled) || !errors.As(got, &c) || !reflect.DeepEqual(c, want) {
		t.Fatalf("%v, %+v", got, c)
	}
	bare := throughHistory(context.Canceled, 1)
	if !errors.Is(bare, context.Canceled) || !errors.As(bare, &c) || c.Text != "context canceled" {
		t.Fatalf("%v, %+v", bare, c)
	}
	if got := throughHistory(context.DeadlineExceeded, 1); !errors.Is(got, context.DeadlineExceeded) || !errors.Is(got, pawl.ErrTimeout) {
		t.Fatalf("%v", got)
	}
	if errors.Is(throughHistory(io.EOF, 1), context.Canceled) || errors.As(throughHistory(io.EOF, 1), &c) {
		t.Fatal("a plain error is a cancellation")
	}
}

func TestDataAndPermanenceSurviveHistory(t *testing.T) {
	var f *pawl.Failure
	err := throughHistory(fmt.Errorf("outer: %w", pawl.Permanent(pawl.WithData(ErrDeclined, order))), 2)
	var got Order
	if !errors.As(err, &f) || !f.Permanent || f.DecodeData(&got) != nil || got != order {
		t.Fatalf("%+v, %+v", f, got)
	}
	if errors.As(throughHistory(ErrDeclined, 1), &f); !errors.Is(f.DecodeData(&got), pawl.ErrUndecodable) {
		t.Fatal("data of an error without data")
	}
	if pawl.Permanent(nil) != nil || pawl.WithData(nil, order) != nil {
		t.Fatal("nil became an error")
	}
	if err := pawl.WithData(ErrDeclined, func() {}); !errors.Is(err, ErrDeclined) || !strings.Contains(err.Error(), "encode func()") {
		t.Fatalf("bad data: %v", err)
	}
}

func TestLongMessageIsCut(t *testing.T) {
	if f := author.ToFailure(errors.New(strings.Repeat("x", 1<<20))); len(f.Message) > 9<<10 {
		t.Fatalf("%d bytes", len(f.Message))
	}
}

func handle(fn func(context.Context, int) (int, error)) func(context.Context, int) (int, *history.Failure) {
	a := pawl.NewActivity[int, int]("a")
	return func(ctx context.Context, in int) (int, *history.Failure) {
		p, f := author.ActivityOf(a.Do(fn)).Handle(ctx, must(author.Input(a).Encode(in)))
		if f != nil {
			return 0, f
		}
		return must(author.Result(a).Decode(p)), nil
	}
}

func TestActivityInputsAndResultsAreEncoded(t *testing.T) {
	got, f := handle(func(_ context.Context, n int) (int, error) { return n * 2, nil })(t.Context(), 21)
	if got != 42 || f != nil {
		t.Fatalf("got %d, %+v", got, f)
	}
}

func TestActivityThatPanicsOrExitsFails(t *testing.T) {
	_, f := handle(func(context.Context, int) (int, error) { panic("boom") })(t.Context(), 1)
	if f == nil || f.Code != history.CodePanic || f.Message != "panic: boom" || !strings.Contains(f.Stack, "failure_test.go") {
		t.Fatalf("panic: %+v", f)
	}
	_, f = handle(func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil })(t.Context(), 1)
	if f == nil || f.Code != history.CodePanic || !strings.Contains(f.Message, "Goexit") {
		t.Fatalf("Goexit: %+v", f)
	}
}

func TestInvalidPayloadsOfActivitiesArePermanentFailures(t *testing.T) {
	a := pawl.NewActivity[int, []byte]("a")
	b := a.Do(func(context.Context, int) ([]byte, error) { return make([]byte, 1<<20), nil })
	if _, f := author.ActivityOf(b).Handle(t.Context(), history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)}); f == nil || f.Code != history.CodeUndecodable || !f.Permanent {
		t.Fatalf("input: %+v", f)
	}
	if _, f := author.ActivityOf(b).Handle(t.Context(), must(author.Input(a).Encode(1))); f == nil || f.Code != history.CodeTooLarge || !f.Permanent {
		t.Fatalf("result: %+v", f)
	}
}

func TestActivityThatReturnsItsContextErrorReportsTheCause(t *testing.T) {
	cause := &pawl.Cancelled{Reason: cancel.Requested, By: "finance", Text: "fraud"}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(cause)
	_, f := handle(func(ctx context.Context, _ int) (int, error) { return 0, fmt.Errorf("query: %w", ctx.Err()) })(ctx, 1)
	var c *pawl.Cancelled
	if f == nil || !errors.As((&pawl.Failure{Failure: *f}), &c) || c.By != "finance" || f.Message != "query: context canceled" {
		t.Fatalf("%+v, %+v", f, c)
	}
	_, f = handle(func(context.Context, int) (int, error) { return 0, io.EOF })(ctx, 1)
	if f.Code != "" {
		t.Fatalf("another error became a cancellation: %+v", f)
	}
}

func TestInfoDescribesTheActivity(t *testing.T) {
	want := pawl.ActivityInfo{Instance: "order-42", Activity: 2, Attempt: 1, Claim: 3, Key: "key"}
	_, f := handle(func(ctx context.Context, _ int) (int, error) {
		if pawl.Info(ctx) != want {
			return 0, fmt.Errorf("info %+v", pawl.Info(ctx))
		}
		return 0, nil
	})(pawl.WithInfo(t.Context(), want), 1)
	if f != nil || pawl.Info(t.Context()) != (pawl.ActivityInfo{}) {
		t.Fatalf("%+v", f)
	}
}
