package pawltest

import "time"

// Named is the handle of an activity.
type Named interface{ Name() string }

// Step is how one run of an activity goes.
type Step struct {
	err   error
	never bool
	after time.Duration
	times int
}

// Succeed is a run of the function that was bound.
func Succeed() Step { return Step{times: 1} }

// Fail is a run that ends with the error, and in which nothing is called.
func Fail(err error) Step { return Step{err: err, times: 1} }

// Never is a run that does not end by itself: only AttemptTimeout, Within or a
// cancellation ends it.
func Never() Step { return Step{never: true, times: 1} }

// After makes the run take so long, in virtual time, from its schedule on.
func (s Step) After(d time.Duration) Step {
	s.after = d
	return s
}

// Times makes the step hold for n runs; below 1: for all that follow.
func (s Step) Times(n int) Step {
	s.times = max(n, 0)
	return s
}

// Script says how the runs of an activity go, in the order in which they are scheduled;
// every attempt of a Retry is one. After the last step runs succeed at once.
func (e *Env) Script(a Named, steps ...Step) { e.scripts[a.Name()] = steps }

// step takes the next step of the activity's script.
func (e *Env) step(name string) Step {
	steps := e.scripts[name]
	if len(steps) == 0 {
		return Succeed()
	}
	next := steps[0]
	switch next.times {
	case 0:
	case 1:
		e.scripts[name] = steps[1:]
	default:
		rest := append([]Step{next}, steps[1:]...) // the test's own slice stays as it is
		rest[0].times--
		e.scripts[name] = rest
	}
	return next
}
