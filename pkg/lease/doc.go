// Package lease is the right to have an activity's result wanted: claiming it,
// keeping it, giving it up.
//
// A lease is a Redis hash. The owner's commit that schedules an activity creates it,
// the commit that cancels the activity deletes it, and so does the ack that brings
// the completion. Nothing else ends it: while the hash is there somebody wants the
// result, and once it is gone nobody does, whatever message is still under way.
//
//	                    claim                      ack
//	(commit) ──▶ free ─────────▶ held(token) ──────────────▶ gone + completion in the inbox
//	               ▲               │  │ ▲ renew
//	               │   abandon     │  │ │
//	               ├───────────────┘  └─┘
//	               │   requeue by the owner, or the next claim, after `until`
//	               └────────────── expired
//
//	free, held, expired ──commit that cancels──▶ gone
//
// # Fields
//
//	e  effect id: what the lease is for. Another effect id is another lease: GONE.
//	n  number of claims
//	c  created, Unix ms
//	t  token of the claim, fresh for every delivery; absent: free
//	w  worker that claimed
//	u  until, Unix ms by the clock of Redis
//	d  span that it was claimed or renewed for, ms
//	b  for when its last holder gave it back, Unix ms: its task is sent again then
//
// The numbers are decimal text. A claim is over when until has passed, or is
// further away than the span, which means that the clock of Redis has stepped back.
//
// # Order
//
// A worker claims, then acks the message, then runs the handler, then acks the
// lease, then rings the doorbell. A crash
//
//   - before the claim: the message is delivered again;
//   - between claim and the message's ack: delivered again, and answered HELD;
//   - anywhere between claim and ack: the lease expires, the owner's look dispatches it again;
//   - between ack and doorbell: the ack has put a look on the agenda, two seconds ahead.
//
// Every script checks all it has to check before it writes. A call whose reply was
// lost may be repeated: a claim by the same token is uncounted, a renewal is
// harmless, an ack or abandon that had taken effect answers GONE or STOLEN and
// writes nothing.
//
// # Trust
//
// The holder must know that it lost the lease before anybody else can have it, with no
// clock in common with Redis. So it counts from the start of its last good claim or
// renewal, taken before the call was sent, on its own monotonic clock: Redis can not
// have counted from earlier. See Keeper.
//
// # A store that has forgotten writes
//
// After a rollback the store may show a claim whose worker has acknowledged it, or given it back, and does not renew it. An
// owner that takes over without a hand-over, or finds that the store has forgotten a commit, asks the worker of each claim
// that has not been made or renewed since (queue.Hint with a Token). The worker acknowledges again what it
// acknowledged within the last TTL, and gives back a claim of its own that it does not know. Both are the scripts above, and
// compare the token: a question that is forged, late or repeated changes nothing. A crash
//
//   - of the worker, or the loss of the question: the claim expires, as ever;
//   - between the second ack and its doorbell: the look, two seconds ahead, as after the first.
//
// # Reports
//
// How a cancelled activity ended is written beside the history, into the hash
// r:<instance>:<execution>, by whoever worked on it. It decides nothing, and a crash
// anywhere before it only leaves it out. See Report.
//
// The API of this package may change.
package lease
