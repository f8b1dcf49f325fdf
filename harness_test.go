package pawl_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run drives an orchestration with the given types of input and result.
type run[In, Out any] struct {
	*replaytest.Driver
	tb     testing.TB
	handle pawl.Orchestration[In, Out]
}

func orchestrate[In, Out any](tb testing.TB, fn func(*pawl.Context, In) (Out, error), in In) run[In, Out] {
	tb.Helper()
	handle := pawl.NewOrchestration[In, Out]("under-test")
	d := replaytest.New(tb, author.Program(handle.Do(fn)), replay.Options{Strict: true})
	d.Feed(&history.Started{Name: handle.Name(), Payload: must(author.Input(handle).Encode(in)), Origin: d.X.Identity().Origin})
	return run[In, Out]{Driver: d, tb: tb, handle: handle}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (r run[In, Out]) result() Out {
	r.tb.Helper()
	r.CheckReplay()
	r.CheckRecord()
	end, ok := r.End().(*history.Completed)
	if !ok {
		r.tb.Fatalf("ended with %+v", r.End())
	}
	return must(author.Result(r.handle).Decode(end.Result))
}

func (r run[In, Out]) failure() error {
	r.tb.Helper()
	r.CheckReplay()
	r.CheckRecord()
	switch end := r.End().(type) {
	case *history.Failed:
		return &pawl.Failure{Failure: end.Failure}
	case *history.Cancelled:
		return &pawl.Failure{Failure: end.Failure}
	default:
		r.tb.Fatalf("ended with %+v", end)
		return nil
	}
}

// answer completes the only outstanding activity, which must be of the handle.
func answer[In, Out any](d *replaytest.Driver, a pawl.Activity[In, Out], out Out) {
	d.Complete(d.Only(a.Name()), must(author.Result(a).Encode(out)))
}

// refuse fails the only outstanding activity, which must be of the handle.
func refuse[In, Out any](d *replaytest.Driver, a pawl.Activity[In, Out], err error) {
	d.Fail(d.Only(a.Name()), *author.ToFailure(err))
}

// answerChild completes the only outstanding child, which must be of the handle.
func answerChild[In, Out any](d *replaytest.Driver, o pawl.Orchestration[In, Out], out Out) {
	d.CompleteChild(d.OnlyChild().ID, must(author.Result(o).Encode(out)))
}

// inputOf returns the input of an outstanding activity.
func inputOf[In, Out any](d *replaytest.Driver, a pawl.Activity[In, Out], id uint64) In {
	return must(author.Input(a).Decode(d.History[id-1].(*history.ActivityScheduled).Payload))
}
