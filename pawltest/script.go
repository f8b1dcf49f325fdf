package pawltest

import "time"

// Named is the handle of an activity, or of an orchestration that is started as a child.
type Named interface{ Name() string }

// Step is the outcome of one run of an activity, or of one child.
type Step struct {
	err   error
	never bool
	after time.Duration
	times int
}

// Succeed runs the bound function of the activity, or the bound code of the child.
func Succeed() Step { return Step{times: 1} }

// Fail makes a run end with the error without calling its function. A child that fails in this way does not exist and needs no binding.
func Fail(err error) Step { return Step{err: err, times: 1} }

// Never makes a run that does not end by itself: only AttemptTimeout, Within or a cancellation ends it. A child is not even started.
func Never() Step { return Step{never: true, times: 1} }

// After delays the end of the run by d of virtual time, counted from when it may begin, so a wait at a limit is not included. For a
// child, it delays the failure or the start.
func (s Step) After(d time.Duration) Step {
	s.after = d
	return s
}

// Times applies the step to n runs, or to all following runs if n is below 1.
func (s Step) Times(n int) Step {
	s.times = max(n, 0)
	return s
}

// Script sets the outcomes of the runs of an activity, or of the children of an orchestration, in the order in which any instance
// schedules them. Every attempt of a Retry is a run; an activity that is cancelled in the turn that schedules it is not. After the last
// step, runs succeed at once. An activity and an orchestration with the same name share a script.
func (e *Env) Script(a Named, steps ...Step) { e.world.work.scripts[a.Name()] = steps }

// step returns the next step of a script and removes it.
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
		rest := append([]Step{next}, steps[1:]...) // the slice given to Script must not change
		rest[0].times--
		w.scripts[name] = rest
	}
	return next
}
