package pawltest

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/replay"
)

// Env is the world of one instance. It is made by New, told what will happen, and then
// used by one Run. It is for the goroutine of its test.
type Env struct {
	tb       testing.TB
	registry *pawl.Registry
	fakes    map[string]pawl.ActivityBinding
	scripts  map[string][]Step
	crashes  crashes

	early   []action // right behind the start
	timed   []timed
	blocked []action // each once nothing else is left to do at an instant

	id      replay.Identity
	program replay.Program
	x       *replay.Execution
	state   history.State
	events  []history.Event
	runs    []run
	now     int64 // Unix milliseconds
	turns   int
}

// epoch is when every instance starts.
func epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// New makes a world that has the bindings, as an orchestrator and a worker would have
// them. A bad name or a duplicate fails the test.
func New(tb testing.TB, bindings ...pawl.Binding) *Env {
	tb.Helper()
	registry, err := pawl.NewRegistry(bindings...)
	if err != nil {
		tb.Fatal(err)
	}
	return &Env{
		tb: tb, registry: registry, now: epoch().UnixMilli(),
		fakes: make(map[string]pawl.ActivityBinding), scripts: make(map[string][]Step),
		id: replay.Identity{Instance: "test", Born: history.Position{Seq: 1, Time: epoch().UnixNano()}, Execution: 1},
	}
}

// Instance gives the instance another id than "test".
func (e *Env) Instance(id string) { e.id.Instance = id }

// Fake puts a binding in the place of whatever was bound to the activity, if anything was.
func (e *Env) Fake(a pawl.ActivityBinding) { e.fakes[a.Name()] = a }

// Now is the virtual time.
func (e *Env) Now() time.Time { return time.UnixMilli(e.now).UTC() }

// Run starts the instance and runs it to its end. The error is the *pawl.Failure that a
// client would get. An Env runs once.
func Run[In, Out any](e *Env, o pawl.Orchestration[In, Out], in In) (Out, error) {
	e.tb.Helper()
	var zero Out
	input, err := o.EncodeInput(in)
	if err != nil {
		return zero, err
	}
	switch end := e.run(o.Name(), input).(type) {
	case *history.Completed:
		return o.DecodeResult(end.Result)
	case *history.Failed:
		return zero, pawl.FromFailure(end.Failure)
	case *history.Cancelled:
		return zero, pawl.FromFailure(end.Failure)
	default:
		e.tb.Fatalf("the instance ended with %T", end)
		return zero, nil
	}
}
