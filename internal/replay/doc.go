// Package replay is the pure turn: history and inputs in, decisions out. It does
// no I/O, reads no clock and starts no goroutine that outlives a call; the code
// of an orchestration runs on iter.Pull coroutines, called strands here.
// Its API may change.
//
// # The protocol of a turn
//
// The caller owns an Execution and is the only one to call it, one call at a
// time, from any goroutine. It feeds inputs one by one:
//
//	New ──▶ Replay(history or nothing) ──▶ Apply(input)… ──▶ Take ──▶ commit
//	                                         ▲                          │
//	                                         └──────────────────────────┘
//	        at any moment between calls: Evict
//
// A step is one input and what the code does about it. The input takes the next
// event id; then what it settles is settled, in a fixed order; then the strands
// that this woke run, first woken first, each until it blocks, until all are
// blocked. Every decision takes the next event id at the moment it is made. So a
// history reads
//
//	input · decisions · input · decisions · … · end
//
// and one rule explains everything else: what the code does in a step depends on
// the events before the step and on its input, and on nothing else. Replay walks
// the recorded events step by step, lets the code make its decisions again, and
// demands that each meets the recorded event of the same kind, name and target (the
// instance that is started, or sent to).
// A difference is a *Divergence, and the execution is unusable after it.
//
// Cancellations are the one exception to the order: within a step they are
// matched as a set. What history cancels the code must have cancelled; what the
// code cancels beyond that (a newer version of it, a newer Pawl) is allowed, and,
// if it is still outstanding when the replay ends, recorded after the next input.
//
// # Scopes and siblings
//
// Everything that the code starts or waits for is in a scope: see Scope. The
// cancellation of the instance is the end of the root scope and nothing else; a sibling
// has a scope of its own; a detached scope lies outside all others and is bounded by a
// timer from the end of its home on. No scope, sibling, wait or condition is in
// history: they follow from the inputs and the code, as the order of events does.
//
// When all strands that an input woke are blocked, those that await a condition are
// resumed to ask it again, in the order in which their waits began; if one goes on, what
// it wakes runs, and all who still wait ask once more. That is part of the step.
//
// A side effect is a decision that carries its value. While its function runs, and
// while a condition is asked, the strand may use no word.
//
// # Polls
//
// A poll is a word that looks without waiting: TryNext, Poll, Ready, a Timer of no time. What it sees must not
// depend on when the code happened to run. So it completes with an input, Observed, that the owner applies while
// the code polls and once every input at hand has been applied:
//
//	Started · EventReceived · EventReceived · Observed · decisions
//	   └─ the code polls ─────────────────────▶ complete
//
// A poll waits like any other word: it is in no history, other strands run meanwhile, and the end of its scope ends
// it. What it is for may be at hand already; then it does not wait. Observed completes all polls; in its step every
// further poll is complete at once, because nothing can have come in between. The time of Observed is Now.
// On replay Observed is an input like any other. Where the code does not poll, it does nothing.
//
// What is at hand is the owner's to say. Because no history shows that the code polls, the owner leaves a poll
// pending behind a commit only if an input that a later turn applies is left in the inbox, too. Crash points: before
// the commit of Observed the turn is decided again, perhaps with more inputs at hand; after it the poll is complete.
//
// # Limits
//
// A limit (of payloads, of what is outstanding, of the room in the owner's commit) refuses a decision at the call, and the
// code gets a failure. The refusal is an event, Refused, so that a replay meets it whatever the limits are by then: see SetRoom.
//
// # Other instances
//
// A child is scheduled as an activity is, and waited for and cancelled in the same places.
// What answers it must carry the effect id of its start: its end is told again until the
// parent has it, and may be that of a child which a turn started that the store has
// forgotten. A detached start and an event are recorded and done with. None of them is
// carried out here: that they are in history is what makes the owner send them.
//
// # Gates
//
// A schedule says what the code declares about limits, and no more. The owner enters the
// gates between Take and the commit, before it applies anything else, and notes in the very events that Take gave what has been let in and
// what waits; the execution keeps them, and reads that note later, as a replay does. So it
// is no decision: a replay compares neither gates nor kept slots, and what
// depends on a note happens behind the turn that it belongs to. An activity that was cancelled in the turn that
// scheduled it, or that failed in it, has none.
//
// Granted is the input by which an activity that waits is let in: the limit of the attempt
// begins anew then. What has come to its limit before has not. A slot that is kept goes from a failed attempt to the timer
// of the pause, which names it, and from there to the next attempt.
//
// Started may have such a note, too: it is written before Apply. Then the execution is
// pending, and the program runs when Granted comes. Events that arrive before that are kept in order; a
// cancellation ends it as Cancelled without any code; and what its owner fails meanwhile,
// because the queue is full or the wait was too long, replays to that end.
//
// # Patches
//
// A marker is a decision that is not met but passed over: see Patched. It may stand
// wherever a cancellation may.
//
// # The next execution
//
// ContinueAsNew decides how a program that returns without a failure ends. That end
// cancels what is outstanding like any other. What was received and not read is in
// Continued, for the owner to put before the next execution; it is the owner, too, that
// counts executions, and hands on the parent and the version of the custom status. Of any other end what was not
// read is in Unread, for the owner to report.
//
// A cancellation that has arrived before the first turn of the next execution is noted in its Started, before Apply: then its code
// begins with the root scope over, and may compensate, but not continue as new. So code that always continues can be ended. The
// input itself stays in the inbox and is dropped as a repeat.
//
// The custom status is not in history. It follows from the code: whoever has replayed a
// history has its status, with the version that it had. What the code may read is that, and what the executions before
// have left: Started carries it.
//
// # States
//
//	        Started             the root returns, a strand panics, a limit is passed
//	new ──────────────▶ parked ─────────────────────────────────────────────▶ ended
//	 │                    ▲                                                     ▲
//	 └──────▶ pending ────┘ Granted                                             │
//	  Started,   └──────────────────────────────────────────────────────────────┘
//	  waits               cancelled, or a limit is passed
//
//	parked, pending ──┬── Divergence ──▶ broken   (unwound; every call returns the divergence)
//	                  └── Evict ───────▶ evicted  (unwound; every call returns ErrEvicted)
//
// The end first cancels the outstanding activities and children, in ascending order of
// id, but for children that are to be abandoned, and then records Completed, Failed,
// Cancelled or ContinuedAsNew; nothing follows. Timers that are outstanding at the end are dropped without an event: nobody but the
// execution waits for a timer, and the end says that nobody waits any more.
// Everywhere else a timer that is dropped has its TimerCancelled.
//
// # Crash points
//
// There are none inside: an Execution is memory. A caller that fails between
// Apply and the commit of what Take gave has forgotten the turn, and must Evict
// the execution, for its code has already gone on. User code that blocks forever
// blocks Apply, Replay or Evict forever; the caller runs them on a goroutine that
// it can afford to leave behind, and an Execution holds nothing that others share.
//
// # Facts about iter.Pull, and what follows from them
//
// Goexit in a coroutine is passed on to whoever called next or stop. Code that
// calls runtime.Goexit (or t.FailNow) therefore would take the caller with it. The
// outermost deferred function of a strand notices that the body neither returned
// nor panicked, and switches back to the caller in the middle of the Goexit; what
// is left of the strand is then resumed by a goroutine of its own, which the Goexit
// may have, and which is joined.
//
// The same serves to unwind a parked strand: the word that it waits in calls
// runtime.Goexit. A panic could be swallowed by a recover of the author's; a Goexit
// cannot. The deferred functions of the author run, and every word that they call
// calls Goexit again, so nothing is scheduled while a strand is unwound. What can
// still hold an eviction up is a deferred function that blocks for real.
//
// A coroutine switch from another goroutine swaps the wrong stacks, silently. The
// words must know that they run on a strand, and Go has no goroutine identity; but
// debug.SetPanicOnFault is a flag of the current goroutine that tells its previous
// value, costs nanoseconds and starts out false. Strands run with it set (which also
// turns a fault in user code into a panic that can be reported), and a word that
// finds it unset is being called from a goroutine that the author started. Code in
// an orchestration must not clear the flag.
//
// A strand must not be locked to its thread: a coroutine switch then ends the
// process, and nothing can prevent it. Orchestration code must not call
// runtime.LockOSThread.
package replay
