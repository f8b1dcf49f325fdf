package pawltest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Env is the world of the instance under test, and of those that it starts and sends messages to.
// It is made by New, set up with what will happen, and then used by one Run. It is for the
// goroutine of its test.
type Env struct {
	Record // of the instance under test

	world *world
}

// world is an Env without what its test calls.
type world struct {
	tb      testing.TB
	guard   guard
	code    code
	setup   setup
	part    *partition
	work    *work
	moments *moments
	outside outside
	answers answers

	policies *limit.Overrides // that are set at run time
	records
}

// setup is what the test has set before Run.
type setup struct {
	crashes crashes
	limit   int    // executions of one instance
	id      string // of the instance under test
	options []StartOption
}

// records have what has happened.
type records struct {
	turns     int // of all instances
	begun     bool
	running   bool // in Run or Advance
	finished  bool // Run is over
	endless   *Endless
	instances []*instance // in the order of their starts
	live      []*instance // those that have not ended
	byID      map[string]*instance
}

// epoch is when the instance under test starts.
func epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// New makes a world that has the bindings, as orchestrators and workers would have them. A
// bad name or a duplicate fails the test.
func New(tb testing.TB, bindings ...pawl.Binding) *Env {
	tb.Helper()
	e := &world{tb: tb, guard: newGuard(), setup: setup{id: "test", limit: 1000}, policies: &limit.Overrides{}, records: records{byID: make(map[string]*instance)}}
	e.part, e.moments = newPartition(e), &moments{env: e, after: make(map[int][]action)}
	e.work = &work{env: e, scripts: make(map[string][]Step), started: make(map[string]bool)}
	e.code.bindings = slices.Clip(bindings) // which parallel tests may share
	for _, b := range builtin.Orchestrations(builtin.Instances{Partitions: 1, List: e.list}) {
		e.code.bindings = append(e.code.bindings, b)
	}
	e.code.update(tb)
	return &Env{Record{e: e}, e}
}

// Instance gives the instance under test another id than "test".
func (e *Env) Instance(id string) { e.world.setup.id = id }

// Version starts the instance under test with a version; without it, with the newest.
func (e *Env) Version(v pawl.Version) {
	e.StartWith(func(in *message.OutInput) { in.Version = string(v) })
}

// Fake puts a binding in the place of whatever was bound to the activity or the
// orchestration, in all its versions, if anything was. A child that is faked is an instance
// like others, with the code of its fake.
func (e *Env) Fake(b pawl.Binding) {
	e.world.tb.Helper()
	e.world.code.fake(e.world.tb, b)
}

// MaxExecutions bounds how often an instance may continue as new: the end of execution n
// ends Run with an *Endless if another is to follow. The default is 1,000.
func (e *Env) MaxExecutions(n int) { e.world.setup.limit = n }

// Endless is the error of Run when an instance would continue as new once more than
// MaxExecutions allows. For an instance that is to run forever that is as good an end of
// a test as any.
type Endless struct {
	Instance   string
	Executions int
}

// Error reports the limit that was reached, and how to go on.
func (e *Endless) Error() string {
	return fmt.Sprintf("instance %s wants to continue as new after %d executions; cancel it at some moment, or allow more with MaxExecutions",
		e.Instance, e.Executions)
}

// Now is the virtual time.
func (e *Env) Now() time.Time { return time.UnixMilli(e.world.part.Now).UTC() }

// Turns is how many turns there were, of all instances. A turn is one input of an
// instance and what the code does about it.
func (e *Env) Turns() int { return e.world.turns }

// Run starts the instance under test and runs it to its end, through all its executions.
// Other instances that are still under way at its end do what is to be done at that
// instant, and wait for Advance. The error is the *pawl.Failure that a client would get,
// or an *Endless. An Env runs once.
func Run[In, Out any](e *Env, o pawl.Orchestration[In, Out], in In) (Out, error) {
	e.world.tb.Helper()
	var zero Out
	input, err := author.Input(o).Encode(in)
	if err != nil {
		return zero, err
	}
	e.world.run(&message.OutInput{Kind: message.KindStart, Name: o.Name(), Payload: input, By: "test"})
	if e.world.endless != nil {
		return zero, e.world.endless
	}
	return result(e.world.last(e.world.setup.id), author.Result(o))
}

// Advance lets time pass after Run, for the instances that have not ended, and for the
// moments to come. If one of them would continue as new too often, it fails the test.
// Without Run the Env has no instance under test: what there is comes with moments, such as schedules and jobs.
func (e *Env) Advance(d time.Duration) {
	e.world.tb.Helper()
	if e.world.begun && !e.world.finished {
		e.world.tb.Fatal("Advance is for what is left to do after Run")
	}
	e.world.advance(e.world.part.Now + d.Milliseconds())
}

// Result gives the result, or the failure, of an instance that has ended, as Run does for
// the one under test. If it has not ended, or is of another orchestration, the test fails.
func Result[In, Out any](of Recorded, o pawl.Orchestration[In, Out]) (Out, error) {
	r := of.recorded()
	r.e.tb.Helper()
	if name := r.in.now().started.Name; name != o.Name() {
		r.in.failf("instance %s is of orchestration %s, and not of %s", r.in.id, name, o.Name())
	}
	return result(r.in, author.Result(o))
}

func result[Out any](in *instance, codec author.Codec[Out]) (Out, error) {
	in.e.tb.Helper()
	var zero Out
	switch end := in.end.(type) {
	case *history.Completed:
		return codec.Decode(end.Result)
	case *history.Failed:
		return zero, &pawl.Failure{Failure: end.Failure}
	case *history.Cancelled:
		return zero, &pawl.Failure{Failure: end.Failure}
	default:
		in.failf("instance %s has not ended", in.id)
		return zero, nil
	}
}
