// Package pool has the messages between orchestrators of which one owns an instance and another has its code.
//
// A pool is the set of members of a namespace that have registered an orchestration. The owner of a partition keeps inbox, commit and all
// else of its instances; of an instance whose orchestration it has not registered, only the turn goes to a member of the pool. A turn is
// pure (core.Given leads to core.Decided), so one that is lost is decided again.
//
//	owner                                                      member
//	code.<orchestration>.<version> ──one of the pool──▶        At, version and limits as declared
//	turn.<at>: Turn ──▶                                        code behind turn After in memory? otherwise: history from Redis, replay
//	           Answer ◀── decision, blocked, or why there is none
//
// # States of a turn at its owner
//
//	         no member known                     found
//	given ───────────────────▶ looking for code ───────▶ sent ──answer──▶ decided
//	  │                              ▲    │                │
//	  └── the member of the turn ────┼────┼───────────────▶│
//	      before                     │    │ none has it    │ the member is gone, silent, busy (behind a pause), or cannot read
//	                                 │    ▼                │
//	                                 │  missing ◀── twice ─┤ busy: ten times
//	                                 └────────── once ─────┘
//
// Silent is a member that has sent nothing for the turn limit and two seconds of the owner. While the turn waits, reads, or runs under
// the watchdog of the member, the member sends its progress each second, and the owner waits on.
//
// Missing stalls the instance as unregistered: it is tried again with growing pauses, and at once when a member joins
// or this process is connected to NATS again.
//
// # Who has code
//
// The subject is the directory: a member listens, in a queue group, on a subject for each version that it has registered, and the server
// answers at once if no member does. There is no list that could be out of date. The next turns of the instance go to the same member, as
// long as it answers.
//
// # What a member keeps
//
// The code of an instance behind its latest turn, under the random id of that turn. A request names the turn that was committed last (After); if
// the member has another, or none, it replays the history, which it reads from Redis: the record has the head, and the history the
// length, that the request names, or the member does not decide. What the owner notes in events after the decision (limits of
// activities) is not in that memory, so the owner names no turn behind one with such notes. Code that was not used for a minute is
// dropped, and the least recently used beyond the number that the process parks.
//
// # Orders that matter
//
//   - An owner has one question open for an instance, each under a random token. An answer is taken once, and only while its question is
//     open: one that is late, repeated, or for a former owner, has no receiver.
//   - The commit names the head on which the turn was decided. So a decision on a history that is no longer there has no effect.
//   - A member listens on its own subject before the subjects of its code, and stops in the opposite order; and listens before it joins
//     the members, whose notice has the others try again what was missing.
//   - A member that stops decides what it was asked before, for the turn limit and two seconds, and is busy for the rest.
//
// # Crash points
//
// The member dies before or in a turn, or before its answer: no answer, the turn is decided again by another. The owner dies: its
// successor has the inputs in the inbox, and asks under another token. Both are the crash of an owner before its commit. Behind the
// answer there is no difference to a turn that was decided in the owner.
//
// # Bounds
//
// A message is cut into parts of 256 KiB, for core NATS takes 1 MiB; it has at most MaxMessage bytes. What has not arrived whole has twice
// that, in all messages together; a part beyond is dropped with its message, and so is a message that is incomplete for 30 s. A member has
// at most 1024 requests with 128 MiB at a time, and answers others that it is busy: their owners ask again, behind pauses that grow to 2 s, ten times
// for a turn, and stall the instance then. It has histories for 16 turns and 8 queries. A turn
// beyond what one commit takes is answered with its size, and its owner fails the instance as it does for a turn of its own.
//
// No secret of a partition is in a message: elements have their ids without the seal, and the owner adds it. Payloads are
// as in the history: sealed, if there is a codec; the member has the key.
package pool
