package pawltest

import "time"

// Named is the handle of an activity, or of an orchestration that is started as a child.
type Named interface{ Name() string }

// Step is how one run of an activity, or one child, goes.
type Step struct {
	err   error
	never bool
	after time.Duration
	times int
}

// Succeed is a run of the function that was bound, or a child that runs as it is bound.
func Succeed() Step { return Step{times: 1} }

// Fail is a run that ends with the error, and in which nothing is called; a child that
// ends so is not there at all, and needs no binding.
func Fail(err error) Step { return Step{err: err, times: 1} }

// Never is a run that does not end by itself: only AttemptTimeout, Within or a
// cancellation ends it. A child does not even start.
func Never() Step { return Step{never: true, times: 1} }

// After makes the run take so long, in virtual time, from when it may begin: a wait at a limit is not part of it. A child fails,
// or else starts, so late.
func (s Step) After(d time.Duration) Step {
	s.after = d
	return s
}

// Times makes the step hold for n runs; below 1: for all that follow.
func (s Step) Times(n int) Step {
	s.times = max(n, 0)
	return s
}

// Script sets how the runs of an activity, or the children of an orchestration, go, in the
// order in which they are scheduled, whichever instance schedules them; every attempt of a
// Retry is one, and an activity that is cancelled in the turn that schedules it is none. After the last
// step they succeed at once. An activity and an orchestration of one name share a script.
func (e *Env) Script(a Named, steps ...Step) { e.world.work.scripts[a.Name()] = steps }

// step takes the next step of a script.
func (w *work) step(name string) Step {
	steps := w.scripts[name]
	if len(steps) == 0 {
		return Succeed()
	}
	next := steps[0]
	switch next.times {
	case 0:
	case 1:
		w.scripts[name] = steps[1:]
	default:
		rest := append([]Step{next}, steps[1:]...) // the test's own slice stays as it is
		rest[0].times--
		w.scripts[name] = rest
	}
	return next
}
