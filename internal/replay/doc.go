// Package replay executes turns: history and inputs in, decisions out. It does no I/O, reads no clock and starts no goroutine
// that outlives a call; the code of an orchestration runs on iter.Pull coroutines, called strands here. Its API may change.
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
// A step is one input and the decisions that follow from it. The input takes the next event id; then everything that it
// answers is settled, in a fixed order; then the strands that this woke run, in the order in which they were woken, each until
// it blocks, until all are blocked. Every decision takes the next event id when it is made. So a history reads
//
//	input · decisions · input · decisions · … · end
//
// and one rule explains everything else: the decisions of a step depend on the events before the step and on its input, and on
// nothing else. Replay processes the recorded events step by step, has the code make its decisions again, and requires that
// each meets the recorded event of the same kind, name and target (the instance that is started, or sent to). A difference is
// a *Divergence, and the execution is unusable after it.
//
// Cancellations are the one exception to the order: within a step they are matched as a set. The code must have made every
// cancellation of the history; further ones (of a newer version of the code, or of Pawl) are allowed and, if the work is still
// outstanding when the replay ends, recorded after the next input.
//
// # Types
//
// An Execution is for its owner. Code, which it embeds, is all of it that its program is given: a program cannot apply an input. Both
// consist of a record (events, and what follows from them), a scheduler (strands), outstanding work, and mailboxes (events and waits
// for them).
//
// # Scopes and siblings
//
// Everything that the code starts or waits for is in a scope: see Scope. The cancellation of the instance is the end of the
// root scope and nothing else; a sibling has a scope of its own; a detached scope is outside all others and is bounded by a
// timer from the end of its home on. No scope, sibling, wait or condition is in the history: they follow from the inputs and
// the code, as the order of events does.
//
// When all strands that an input woke are blocked, those that await a condition evaluate it again, in the order in which their
// waits began; if one continues, the strands that it wakes run, and all that still wait evaluate once more. That is part of
// the step.
//
// A side effect is a decision that carries its value. While its function runs, and while a condition is evaluated, the strand
// may call no method of Code.
//
// # Polls
//
// A poll checks without waiting: TryNext, Poll, Ready, a Timer of no time. Its result must not depend on when the code
// happened to run. So it completes with an input, Observed, that the owner applies while the code polls and once every input
// that has arrived has been applied:
//
//	Started · EventReceived · EventReceived · Observed · decisions
//	   └─ the code polls ─────────────────────▶ complete
//
// A poll waits like any other method: it is in no history, other strands run meanwhile, and the end of its scope ends it. If
// its result is available already, it does not wait. Observed completes all polls; in its step every further poll is complete
// at once, because nothing can have arrived in between. The time of Observed is Now. On replay Observed is an input like any
// other. If the code does not poll, it has no effect.
//
// The owner determines what has arrived. Because no history shows that the code polls, the owner leaves a poll pending behind
// a commit only if an input that a later turn applies is left in the inbox, too. Crash points: before the commit of Observed
// the turn is decided again, perhaps after further inputs; after it the poll is complete.
//
// # Refusals
//
// A limit (of payloads, of outstanding work, of the room in the owner's commit) refuses a decision at the call, and the code
// gets a failure. The refusal is an event, Refused, so that a replay meets it whatever the limits are by then: see SetRoom.
//
// # Other instances
//
// A child is scheduled as an activity is, and waited for and cancelled in the same places. Its end must carry the effect id of
// its start: the end is sent until the parent has it, and may be that of a child which was started by a turn that the store
// has lost. A detached start and an event are recorded without an answer. None of them is carried out here: the owner sends
// what is in the history.
//
// # Limits of actions
//
// A schedule has the limits that the code declares, and no more. The owner admits attempts between Take and the commit, before
// it applies anything else, and records in the very events of Take which were admitted and which wait; the execution keeps
// these events and reads the record later, as a replay does. So it is no decision: a replay compares neither limits nor
// retained slots, and what depends on the record happens behind the turn that it belongs to. An activity that was cancelled in
// the turn that scheduled it, or that failed in it, has none.
//
// Granted is the input by which a waiting activity is admitted: the timeout of the attempt begins anew then. A retained slot
// goes from a failed attempt to the timer of the pause, which names it, and from there to the next attempt.
//
// Started may have such a record, too: it is written before Apply. Then the execution is pending, and the program runs after
// Granted. Events that arrive before that are kept in order; a cancellation ends it as Cancelled without any code; and an end
// that its owner records meanwhile, because there were too many waiters or the maximum wait was over, replays to that end.
//
// # Patches
//
// A marker is a decision that is not met but skipped: see Patched. It may be wherever a cancellation may be.
//
// # The next execution
//
// ContinueAsNew decides how a program that returns without a failure ends. That end cancels outstanding work like any other.
// Continued returns the events that were received and not read, for the owner to put before the next execution; the owner also
// counts executions, and passes on the parent and the version of the custom status. After any other end Unread returns the
// unread events, for the owner to report.
//
// A cancellation that has arrived before the first turn of the next execution is recorded in its Started, before Apply: then
// its code begins with the root scope over, and may compensate, but not continue as new. So code that always continues can be
// ended. The input itself stays in the inbox and is dropped as a repeat.
//
// The custom status is not in the history. It follows from the code: an execution that has replayed a history has its status,
// with the version that it had. The code may read that, and the status of the executions before, which Started carries.
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
// The end first cancels the outstanding activities and children, in ascending order of id, except for children that are to be
// abandoned, and then records Completed, Failed, Cancelled or ContinuedAsNew; nothing follows. Timers that are outstanding at
// the end are dropped without an event, because only the execution waits for them. Everywhere else a timer that is dropped has
// its TimerCancelled.
//
// # Crash points
//
// There are none inside: an Execution is memory. A caller that fails between Apply and the commit of the events of Take has
// lost the turn, and must Evict the execution, because its code has already continued. User code that blocks indefinitely
// blocks Apply, Replay or Evict; the caller runs them on a goroutine that it can abandon, and an Execution shares nothing with
// others.
//
// # Facts about iter.Pull
//
// Goexit in a coroutine is passed on to the caller of next or stop. Code that calls runtime.Goexit (or t.FailNow) therefore
// would end the caller with it. The outermost deferred function of a strand detects that the body neither returned nor
// panicked, and switches back to the caller in the middle of the Goexit; the rest of the strand is then resumed by a goroutine
// of its own, which the Goexit ends, and which is joined.
//
// The same is used to unwind a parked strand: the method in which it waits calls runtime.Goexit. A panic could be recovered by
// the author's code; a Goexit cannot. The deferred functions of the author run, and every method that they call calls Goexit
// again, so nothing is scheduled while a strand is unwound. Only a deferred function that really blocks can delay an eviction.
//
// A coroutine switch from another goroutine swaps the wrong stacks, silently. The methods must detect whether they run on a
// strand, and Go has no goroutine identity; but debug.SetPanicOnFault is a flag of the current goroutine that returns its
// previous value, costs nanoseconds and is false at first. Strands run with it set (which also turns a fault in user code into
// a panic that can be reported), and a method that finds it unset is being called from a goroutine that the author started.
// Code in an orchestration must not clear the flag.
//
// A strand must not be locked to its thread: a coroutine switch then ends the process, and nothing can prevent it.
// Orchestration code must not call runtime.LockOSThread.
package replay
