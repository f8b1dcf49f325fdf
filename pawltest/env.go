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

// Env runs the instance under test and the instances that it starts and sends messages to. Create it with New, set up what will happen,
// and call Run once. Only the goroutine of its test may use it.
type Env struct {
	Record // the record of the instance under test

	world *world
}

// world is the part of an Env that tests do not call.
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

	policies *limit.Overrides // policies set at run time
	records
}

// setup is the configuration made before Run.
type setup struct {
	crashes crashes
	limit   int    // maximum number of executions of one instance
	id      string // id of the instance under test
	options []StartOption
}

// records are the results so far.
type records struct {
	turns     int // number of turns of all instances
	begun     bool
	running   bool // whether Run or Advance is running
	finished  bool // whether Run has returned
	endless   *Endless
	instances []*instance // in the order of their starts
	live      []*instance // instances that have not ended
	byID      map[string]*instance
}

// epoch returns the time at which the instance under test starts.
func epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// New creates an Env with the bindings that orchestrators and workers would have. An invalid name or a duplicate binding fails the test.
func New(tb testing.TB, bindings ...pawl.Binding) *Env {
	tb.Helper()
	e := &world{tb: tb, guard: newGuard(), setup: setup{id: "test", limit: 1000}, policies: &limit.Overrides{}, records: records{byID: make(map[string]*instance)}}
	e.part, e.moments = newPartition(e), &moments{env: e, after: make(map[int][]action)}
	e.work = &work{env: e, scripts: make(map[string][]Step), started: make(map[string]bool)}
	e.code.bindings = slices.Clip(bindings) // parallel tests may share the caller's slice
	for _, b := range builtin.Orchestrations(builtin.Instances{Partitions: 1, List: e.list}) {
		e.code.bindings = append(e.code.bindings, b)
	}
	e.code.update(tb)
	return &Env{Record{e: e}, e}
}

// Instance sets the id of the instance under test. The default is "test".
func (e *Env) Instance(id string) { e.world.setup.id = id }

// Version starts the instance under test with a version. The default is the newest.
func (e *Env) Version(v pawl.Version) {
	e.StartWith(StartOption{func(in *message.OutInput) { in.Version = string(v) }})
}

// Fake replaces whatever is bound for the activity or the orchestration, in all its versions; nothing need be bound. A child that is
// faked is an ordinary instance that runs the code of its fake.
func (e *Env) Fake(b pawl.Binding) {
	e.world.tb.Helper()
	e.world.code.fake(e.world.tb, b)
}

// MaxExecutions bounds how often an instance may continue as new: if execution n continues as new, Run ends with an *Endless. The default
// is 1,000.
func (e *Env) MaxExecutions(n int) { e.world.setup.limit = n }

// Endless is the error of Run if an instance continues as new more often than MaxExecutions allows. For an instance that runs forever, it
// is a regular way to end the test.
type Endless struct {
	Instance   string
	Executions int
}

// Error reports the limit that was reached and what to do.
func (e *Endless) Error() string {
	return fmt.Sprintf("instance %s continues as new after %d executions; cancel it, or allow more with MaxExecutions",
		e.Instance, e.Executions)
}

// Now returns the virtual time.
func (e *Env) Now() time.Time { return time.UnixMilli(e.world.part.Now).UTC() }

// Turns returns the number of turns so far, over all instances. A turn is one input of an instance and what the code does in response.
func (e *Env) Turns() int { return e.world.turns }

// Run starts the instance under test and runs it to its end, through all its executions. Other instances that are still running at that
// time finish what is due at that instant, and then wait for Advance. The error is the *pawl.Failure that a client would receive, or an
// *Endless. Run may be called once per Env.
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

// Advance lets time pass after Run, for the instances that have not ended and for further moments. If an instance continues as new too
// often, the test fails. If Run was not called, the Env has no instance under test, only what moments create, such as schedules and jobs.
func (e *Env) Advance(d time.Duration) {
	e.world.tb.Helper()
	if e.world.begun && !e.world.finished {
		e.world.tb.Fatal("Advance is for what is left to do after Run")
	}
	e.world.advance(e.world.part.Now + d.Milliseconds())
}

// Result returns the result or the failure of an instance that has ended, as Run does for the instance under test. If the instance has
// not ended or belongs to another orchestration, the test fails.
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
