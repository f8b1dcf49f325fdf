// Package lease has the leases of activities: claiming, renewing and ending them.
//
// A lease is a Redis hash. The owner's commit that schedules an activity creates it, the commit that cancels the activity deletes
// it, and so does the ack that pushes the completion. Nothing else ends it: while the hash exists the result is required, and
// without it the result is not, whatever message is still in transit.
//
//	                    claim                      ack
//	(commit) ──▶ free ─────────▶ held(token) ──────────────▶ gone + completion in the inbox
//	               ▲               │  │ ▲ renew
//	               │   release     │  │ │
//	               ├───────────────┘  └─┘
//	               │   reconciliation by the owner, or the next claim, after `until`
//	               └────────────── expired
//
//	free, held, expired ──commit that cancels──▶ gone
//
// # Fields
//
//	e  effect id of the activity. Another effect id is another lease: GONE.
//	n  number of claims
//	c  created, Unix ms
//	k  key of the proof for the doorbell
//	t  token of the claim, fresh for every delivery; absent: free
//	w  worker that claimed
//	u  until, Unix ms by the clock of Redis
//	d  duration that it was claimed or renewed for, ms
//	r  when its last holder returned it, Unix ms: its task is published again then
//
// The numbers are decimal text. A claim has expired when until has passed, or is farther ahead than the duration, which means
// that the clock of Redis has stepped back.
//
// # Order
//
// A worker claims, acks the message, runs the handler, acks the lease, and rings the doorbell. A crash
//
//   - before the claim: the message is delivered again;
//   - between claim and the message's ack: it is delivered again, and the claim is answered HELD;
//   - anywhere between claim and ack: the claim expires, and reconciliation dispatches the task again;
//   - between ack and doorbell: the ack has set a wakeup two seconds ahead.
//
// Every script checks everything before it writes. A call whose reply was lost may be repeated: a claim by the same token is
// uncounted, a renewal is harmless, an ack or a release that took effect is answered GONE or STOLEN and writes nothing.
//
// # Trust
//
// A holder must know that it lost the lease before another worker can claim it, without a common clock with Redis. So it counts
// from the start of its last successful claim or renewal, taken before the call was sent, on its own monotonic clock: Redis
// cannot have counted from earlier. See Keeper.
//
// # Lost writes
//
// After a rollback Redis may have a claim whose worker has acknowledged or returned the lease, and does not renew it. An owner
// that takes over uncleanly, or finds that Redis has lost a commit, queries the worker of each claim that was not made or renewed
// since (queue.Hint with a Token). The worker acknowledges again what it acknowledged within the last TTL, and returns a claim of
// its own that it does not have. Both are the scripts above, and compare the token: a query that is forged, late or repeated
// changes nothing. A crash
//
//   - of the worker, or the loss of the query: the claim expires;
//   - between the second ack and its doorbell: the wakeup two seconds ahead, as after the first.
//
// # Reports
//
// The process that handled a cancelled activity records how it ended beside the history, in the hash r:<instance>:<execution>. A
// report decides nothing, and a crash before it only leaves it out. See Report.
//
// The API of this package may change.
package lease
