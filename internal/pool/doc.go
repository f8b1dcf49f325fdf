// Package pool implements the messages between an orchestrator that owns an instance and another one that has its code.
//
// A pool is the set of members of a namespace that have registered an orchestration. The owner of a partition handles inboxes, commits and
// everything else for all of its instances. If it has not registered the orchestration of an instance, it sends only the turn to a member of the
// pool. A turn is pure (core.Given determines core.Decided), so a turn that is lost is decided again.
//
//	owner                                                      member
//	code.<orchestration>.<version> ──one of the pool──▶        At, version and declared limits
//	turn.<at>: Turn ──▶                                        is the code after turn After in memory? otherwise: history from Redis, replay
//	           Answer ◀── decision, blocked, or why there is none
//
// # States of a turn at its owner
//
//	         no member known                     found
//	given ───────────────────▶ searching for code ─────▶ sent ──answer──▶ decided
//	  │                              ▲    │                │
//	  └── the member of the ─────────┼────┼───────────────▶│
//	      previous turn              │    │ none has it    │ the member is gone, silent, busy (after a pause), or cannot read
//	                                 │    ▼                │
//	                                 │  missing ◀── twice ─┤ busy: ten times
//	                                 └────────── once ─────┘
//
// A member is silent if it has sent nothing for the owner's turn limit plus two seconds. While the turn waits, reads, or runs under
// the watchdog of the member, the member reports progress every second, and the owner continues to wait.
//
// If code is missing, the instance is stalled as unregistered. It is retried with backoff, and at once when a member joins
// or this process reconnects to NATS.
//
// # Finding code
//
// Subjects are the directory: a member subscribes, in a queue group, to a subject for each version that it has registered, and the server
// replies at once if there is no subscription. There is no list that could be out of date. Further turns of the instance are sent to the same
// member for as long as it answers.
//
// # Memory of a member
//
// A member keeps the code of an instance after its latest turn, under the random id of that turn. A request names the turn that was committed last
// (After). If the member has the code after another turn, or none, it reads the history from Redis and replays it. It rejects the request unless
// the record has the head, and the history the length, that the request names. Limits of activities, which the owner records in events after
// the decision, are not in the code of the member, so after such a turn the owner names none. Code that was not used for a minute is
// dropped, and so is the least recently used code beyond the number that the process parks.
//
// # Orders that matter
//
//   - An owner has one open request per instance, under a random token. An answer is accepted once, and only while its request is
//     open. A late or repeated answer, or one for a former owner, has no receiver.
//   - The commit names the head on which the turn was decided. A decision on a history that has changed therefore has no effect.
//   - A member subscribes to its own subject before the subjects of its code, and unsubscribes in the opposite order. It subscribes before it
//     joins the members, because the notice of its joining makes the others retry turns whose code was missing.
//   - A member that stops decides the turns that it has already received, for the turn limit plus two seconds, and answers busy to the rest.
//
// # Crash points
//
// If the member dies before or during a turn, or before its answer, no answer arrives, and another member decides the turn again. If the owner
// dies, its successor has the inputs in the inbox, and sends a request with another token. Both cases are equivalent to the crash of an owner
// before its commit. After the answer a turn does not differ from one that the owner has decided itself.
//
// # Bounds
//
// A message has at most MaxMessage bytes, and is cut into parts of 256 KiB, because core NATS accepts 1 MiB. Incomplete messages may have twice
// MaxMessage bytes together; a part beyond that is dropped with its message, and so is a message that is incomplete for 30 s. A member accepts
// at most 1024 requests with 128 MiB at a time, and answers busy to others. Their owners retry ten times per turn, with pauses that grow to 2 s,
// and then stall the instance. A member holds histories for 16 turns and 8 queries. For a turn that is larger than a commit may be, the answer
// is only its size, and the owner fails the instance as it does for a turn of its own.
//
// Messages contain no secret of a partition: the ids of inbox elements are sent without the seal, and the owner adds it. Payloads are
// as in the history, encrypted if a codec is configured; the member has the key.
package pool
