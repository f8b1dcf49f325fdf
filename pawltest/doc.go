// Package pawltest runs orchestrations in tests: on the real turn engine, in virtual time, in process, without servers. Thirty days take
// milliseconds.
//
//	func TestOrderWithoutApprovalReleasesItsStock(t *testing.T) {
//		env := pawltest.New(t, Fulfil.Do(fulfil), Reserve.Do(reserve), Release.Do(release))
//		_, err := pawltest.Run(env, Fulfil, Order{ID: "42"})
//		if !errors.Is(err, ErrNotApproved) {
//			t.Error(err)
//		}
//		env.WantLines("TimerFired", "ActivityScheduled release-stock")
//	}
//
// # Time
//
// Time starts at midnight of 2026-01-01 UTC. It advances only when nothing is left to do, and then to whichever comes first: the next
// timer, the next end of an activity, the next admission or rejection by a limit, or the next Moment. It does not advance to work that an
// owner does only to repair losses, because nothing is lost except by Crash. At one instant, work is done in this order:
//
//	work that the owner already has, and accepted inputs            one turn per input
//	timers and limits that are due
//	activities that are due, in the order in which they were scheduled
//	moments, in the order in which they were declared; inputs of one time are accepted together
//	Blocked
//	time advances
//
// Each kind of work is done when nothing is left of the kinds above it. An Env is therefore deterministic: the same code and the same
// Moments lead to the same histories. Production has the same order: a timer that was due fires before inputs that arrived at that time
// are read.
//
// # The engine
//
// An Env has one partition, run by the owner used in production (internal/core) on an in-memory store, against which the Lua scripts are
// tested. Everything that follows from an input (turns, messages and their repetition, children, continue-as-new, limits, updates,
// requests of operators, purges) therefore works as in production. What an Env does not have is processes, networks, other partitions,
// and time that passes by itself.
//
// # Activities
//
// An activity runs when its result is due: at once, unless Script sets another time. It runs on the test's own goroutine and takes no
// virtual time, with the function of its binding. An activity that is cancelled before its result is due never runs. Fake replaces the
// function of a binding.
//
// # Other instances
//
// A child runs in the same Env as a separate instance; Of returns its record. Its orchestration must be bound, faked with Fake, or given
// an outcome with Script. A message to an instance that does not exist is kept for a day in case the instance starts, and can be read
// with SentTo. Run returns when the instance under test has ended; Advance lets the others continue.
//
// An instance that continues as new runs until it really ends, or until Run ends with an *Endless. What an Env reports about its history
// is about the last execution; Execution returns the earlier ones.
//
// # Jobs, schedules and batches
//
// Pawl's built-in orchestrations are available in every Env. At a moment, RunJob runs an activity, CreateSchedule creates a schedule,
// which acts in virtual time, and StartBatch sends a request to the instances that match a filter. If Run is not called, Advance lets
// time pass for them:
//
//	env.BeforeStart().To("closing").CreateSchedule(client.Schedule{Times: client.Times{Cron: []string{"0 17 L * *"}}, Run: job})
//	env.Advance(60 * 24 * time.Hour)
//
// Import creates an instance from an export, which Retry continues with the bound code.
//
// # Limits
//
// The limits that handles declare apply to activities and to instances. Callers over a limit wait in virtual time, and rejected calls
// fail with ErrLimited, ErrQueueFull or, after their maximum wait, ErrQueueTimeout. Script can reject calls, too:
// Fail(pawl.ErrQueueFull).
//
// # Crashes
//
// A process that runs an orchestration may die after any turn, so by default a test simulates that: after each of the first hundred turns
// of an execution, and from then on whenever its history has grown by a tenth, the running code is unwound and restored by a strict
// replay of the history, in which a payload that encodes differently is an error, too. When an execution has ended, and when the run has,
// all inputs are applied once more without any crash. They must lead to the same decisions and the same custom status, up to the first
// side effect, whose value would differ. The code under test is therefore run many times, and so are its effects on variables of the
// test.
//
// CrashAfter and Moment.Crash make the owner itself die, with everything that it holds in memory. It dies between the commit of a turn
// and everything that follows from it: tasks, messages and calls of limits are then sent by the next owner, from the contents of the
// store.
//
// # New code
//
// Deploy replaces code in the middle of a run. Replay checks today's code against a history that was recorded with yesterday's.
//
// # Errors
//
// An error of the orchestration is returned by Run. A problem with the orchestration, such as a divergence, a broken history, an activity
// without a binding, or a wait for something that never happens, fails the test at once and prints the history. So does code that blocks,
// for example on a channel or a mutex: after about a second, with its stack.
package pawltest
