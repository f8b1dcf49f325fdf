// Package pawltest runs an orchestration in a test: on the real turn engine, in virtual
// time, in process, without servers. Thirty days take milliseconds.
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
// Time starts at midnight of 2026-01-01 UTC and moves only when nothing is left to do:
// to the next timer, the next end of an activity, what a limit admits or rejects next, or the next Moment, whichever is
// first. It does not move to what an owner only does to repair what was lost: nothing is, but by Crash. At one instant
//
//	what the owner has in hand, and the inputs that are accepted    turns, one input each
//	timers and limits that are due
//	activities that are due, in the order in which they were scheduled
//	moments, in the order in which they were declared; inputs of one time are accepted together
//	Blocked
//	time moves
//
// each comes when nothing is left of those above it. So an Env is deterministic: the same code and the same Moments lead to the
// same histories. It is the order of the real thing, which fires a timer that was due before it reads what came at that time.
//
// # The engine
//
// An Env has one partition, with the owner of production (internal/core) on a store in memory that the Lua scripts are compared with.
// So all that follows from an input (turns, messages and their repetition, children, continue-as-new, limits, updates, requests of operators,
// purges) is as in production; what is left out are processes, networks, other partitions, and time that passes by itself.
//
// # Activities
//
// An activity runs when its result is due, at once unless Script has it otherwise, on the
// test's own time and goroutine and as its binding has it; one that was cancelled before never runs.
// Fake puts another function in the place of one that was bound.
//
// # Other instances
//
// A child runs in the same Env, as an instance of its own: Of gives its record. It must be
// bound, or Fake must stand in for it, or Script must say how it ends. What is sent to an
// instance that is not there is kept for a day, should it start, and may be read with
// SentTo. Run is over when the instance under test has ended; Advance lets the others go
// on.
//
// An instance that continues as new goes on until it really ends, or Run does with
// an *Endless. What an Env reports of its history is about the last execution; Execution gives
// those before.
//
// # Jobs, schedules and batches
//
// An Env has Pawl's own orchestrations, as every fleet: at a moment, RunJob runs an activity, CreateSchedule creates a schedule, which acts in
// virtual time, and StartBatch sends a request to the instances that pass a filter. Without Run, Advance lets time pass for them:
//
//	env.BeforeStart().To("closing").CreateSchedule(client.Schedule{Times: client.Times{Cron: []string{"0 17 L * *"}}, Run: job})
//	env.Advance(60 * 24 * time.Hour)
//
// Import makes an instance of an export, which Retry continues with the code that is bound.
//
// # Limits
//
// Limits that the handles declare apply, to activities and to instances: what must wait waits in virtual time, and what is rejected fails
// with ErrLimited, ErrQueueFull or, after its maximum wait, ErrQueueTimeout. Script can reject, too: Fail(pawl.ErrQueueFull).
//
// # Crashes
//
// The process that runs an orchestration may die after any turn. So, by default, the
// code's does: after each of the first hundred turns of an execution, and then whenever
// its history has grown by a tenth, the running code is unwound and brought back by a
// strict replay of the history, in which also a payload that encodes differently is an
// error. When an execution has ended, and when the run has, all inputs are given to the code
// once more without any crash, and must lead to the same decisions and the same custom
// status, up to the first side effect, which would have another value now. Code under test
// is therefore run many times; what it does to variables of the test is done many times.
//
// CrashAfter and Moment.Crash have the owner itself die, with all that it has in memory. After a turn it dies between the commit
// and everything that follows from it: tasks, messages and calls of limits are then sent by the next owner, from what the store has.
//
// # New code
//
// Deploy replaces code in the middle of a run, and Replay holds today's code to a history
// that was recorded with yesterday's.
//
// # Errors
//
// What goes wrong in the orchestration is Run's error. What goes wrong with it — a
// divergence, a broken history, an activity without a binding, a wait for something
// that never comes — fails the test at once, and shows the history. So does code that
// blocks, for example on a channel or a mutex: after about a second, with its stack.
package pawltest
