// Package replay executes turns: it takes history and inputs, and produces decisions. It does no I/O, reads no clock and starts no
// goroutine that outlives a call. The code of an orchestration runs on iter.Pull coroutines, which are called strands here. The package
// is internal, and its API may change.
//
// # The protocol of a turn
//
// The owner of an Execution calls it, one call at a time, from any goroutine. It applies inputs one by one:
//
//	New ──▶ Replay(history or nothing) ──▶ Apply(input)… ──▶ Take ──▶ commit
//	                                         ▲                          │
//	                                         └──────────────────────────┘
//	        at any moment between calls: Evict
//
// A step is one input and the decisions that follow from it. The input takes the next event id. Then everything that it answers is
// settled, in a fixed order. Then the strands that this woke run in the order in which they were woken, each until it blocks, until all
// are blocked. Every decision takes the next event id when it is made. A history therefore reads
//
//	input · decisions · input · decisions · … · end
//
// and one rule explains everything else: the decisions of a step depend only on the events before the step and on its input. Replay
// processes the recorded events step by step, lets the code make its decisions again, and requires each decision to match the recorded
// event in kind, name and target (the instance that is started, or sent to). A mismatch is a *Divergence, after which the execution is
// unusable.
//
// Cancellations are the one exception to the order: within a step they are matched as a set. The code must make every cancellation that
// is in the history. It may make further ones (because the code or Pawl itself is newer); if their work is still outstanding when the
// replay ends, they are recorded after the next input.
//
// # Types
//
// The owner uses an Execution. The program gets only the embedded Code, so it cannot apply an input. Both consist of a record (the events
// and the state derived from them), a scheduler (strands), outstanding work, and mailboxes (events and waits for them).
//
// # Scopes and siblings
//
// Everything that the code starts or waits for belongs to a Scope. The cancellation of the instance is simply the end of the root scope.
// A sibling has its own scope. A detached scope is outside all others and is bounded by a timer that starts at the end of its home scope.
// No scope, sibling, wait or condition is recorded in the history: they follow from the inputs and the code, as the order of events does.
//
// When all strands that an input woke are blocked, those that await a condition evaluate it again, in the order in which their waits
// began. If one of them continues, the strands that it wakes run, and all that still wait evaluate their conditions once more. All of
// that is part of the step.
//
// A side effect is a decision that carries its value. While its function runs, and while a condition is evaluated, the strand must not
// call any method of Code.
//
// # Polls
//
// A poll checks without waiting: TryNext, Poll, Ready, and a Timer of zero or less. Its result must not depend on when the code happened
// to run. It is therefore completed by an input, Observed, which the owner applies when the code polls and every input that has arrived
// has been applied:
//
//	Started · EventReceived · EventReceived · Observed · decisions
//	   └─ the code polls ─────────────────────▶ complete
//
// A poll waits like any other method: it is not recorded in the history, other strands run in the meantime, and the end of its scope ends
// it. If its result is already available, it does not wait. Observed completes all polls. In its step every further poll is complete at
// once, because nothing can have arrived in between. The time of Observed is Now. On replay, Observed is an input like any other. If the
// code does not poll, it has no effect.
//
// The owner determines what has arrived. Because the history does not show that the code polls, the owner may commit while a poll is
// pending only if the inbox also still holds an input for a later turn. Crash points: before the commit of Observed, the turn is decided
// again, possibly with further inputs; after it, the poll is complete.
//
// # Refusals
//
// A limit (of payload size, of outstanding work, of the room in the owner's commit) refuses a decision at the call, and the code receives
// a failure. The refusal is recorded as an event, Refused, so that a replay reproduces it whatever the limits are by then: see SetRoom.
//
// # Other instances
//
// A child is scheduled, awaited and cancelled like an activity. The end of a child must carry the effect id of its start. Ends are resent
// until the parent has recorded one, and an end may come from a child that was started by a turn which the store has since lost. A
// detached start and a sent event are recorded without an answer. None of them is carried out here: the owner sends what the history
// contains.
//
// # Limits of actions
//
// A schedule records the limits that the code declares, and nothing else. Between Take and the commit, before it applies anything else,
// the owner admits attempts, and records in the same events which were admitted and which wait. The execution keeps these events and
// reads that record later, as a replay does. The record is therefore not a decision: a replay compares neither limits nor retained slots,
// and whatever depends on the record happens after the turn that it belongs to. An activity that was cancelled or that failed in the turn
// that scheduled it has no such record.
//
// Granted is the input that admits a waiting activity; the timeout of its attempt restarts then. A retained slot passes from a failed
// attempt to the timer of the backoff, which names it, and from there to the next attempt.
//
// Started may have such a record, too, written before Apply. The execution is then pending, and the program runs after Granted. Events
// that arrive before that are kept in order. A cancellation ends the execution as Cancelled without running any code. If the owner
// records an end in the meantime, because there were too many waiters or the maximum wait was over, the history replays to that end.
//
// # Patches
//
// A marker is a decision that is skipped rather than matched: see Patched. It may appear wherever a cancellation may.
//
// # The next execution
//
// ContinueAsNew determines how a program that returns without a failure ends. That end cancels outstanding work like any other. Continued
// returns the events that were received but not read, which the owner delivers to the next execution first. The owner also counts
// executions, and passes on the parent and the version of the custom status. After any other end, Unread returns the unread events, for
// the owner to report.
//
// A cancellation that arrives before the first turn of the next execution is recorded in its Started, before Apply. Its code then begins
// with the root scope over: it may compensate, but not continue as new. This makes it possible to end code that always continues. The
// input itself stays in the inbox and is dropped as a repeat.
//
// The custom status is not in the history, because it follows from the code: an execution that has replayed a history has the status and
// the version that it had before. The code may read that, and the status of the previous executions, which Started carries.
//
// # States
//
//	        Started             the root returns, a strand panics, a limit is exceeded
//	new ──────────────▶ parked ─────────────────────────────────────────────▶ ended
//	 │                    ▲                                                     ▲
//	 └──────▶ pending ────┘ Granted                                             │
//	  Started,   └──────────────────────────────────────────────────────────────┘
//	  waits               cancelled, or a limit is exceeded
//
//	parked, pending ──┬── Divergence ──▶ broken   (unwound; every call returns the divergence)
//	                  └── Evict ───────▶ evicted  (unwound; every call returns ErrEvicted)
//
// The end first cancels the outstanding activities and children in ascending order of id, except for abandoned children, and then records
// Completed, Failed, Cancelled or ContinuedAsNew. Nothing follows it. Timers that are outstanding at the end are dropped without an
// event, because only the execution waits for them. At any other time, a dropped timer is recorded as TimerCancelled.
//
// # Crash points
//
// There are none inside the package: an Execution is memory only. A caller that fails between Apply and the commit of the events of Take
// has lost the turn and must Evict the execution, because its code has already continued. User code that blocks indefinitely blocks
// Apply, Replay or Evict. The caller runs them on a goroutine that it can abandon; executions share nothing with each other.
//
// # Facts about iter.Pull
//
// Goexit in a coroutine propagates to the caller of next or stop. Code that calls runtime.Goexit (or t.FailNow) would therefore end the
// caller with it. The outermost deferred function of a strand detects that the body neither returned nor panicked, and switches back to
// the caller in the middle of the Goexit. The rest of the strand is then resumed by a separate goroutine, which the Goexit ends, and
// which is joined.
//
// The same mechanism unwinds a parked strand: the method in which it waits calls runtime.Goexit. The author's code could recover from a
// panic, but not from a Goexit. The author's deferred functions run, and every method that they call calls Goexit again, so nothing is
// scheduled while a strand is unwound. Only a deferred function that really blocks can delay an eviction.
//
// A coroutine switch from another goroutine swaps the wrong stacks, silently. The methods must therefore detect whether they run on a
// strand, but Go has no goroutine identity. The flag set by debug.SetPanicOnFault is a substitute: it belongs to the current goroutine,
// the call returns its previous value and costs nanoseconds, and it is false initially. Strands run with the flag set (which also turns a
// fault in user code into a panic that can be reported). A method that finds it unset was called on a goroutine that the author started.
// Code in an orchestration must not clear the flag.
//
// A strand must not be locked to its thread: a coroutine switch would then crash the process, and nothing can prevent it. Orchestration
// code must not call runtime.LockOSThread.
package replay
