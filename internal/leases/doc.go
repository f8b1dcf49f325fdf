// Package leases claims, renews and ends the leases of activities.
//
// A lease is a Redis hash. The owner's commit that schedules an activity creates it. The commit that cancels the activity deletes it, and
// so does the ack that pushes its completion. Nothing else deletes it: while the hash exists the result is required, and without it the
// result is not, regardless of the messages that are still in transit.
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
//	e  effect id of the activity; a request with another effect id is answered GONE
//	n  number of claims
//	c  creation time, Unix ms
//	k  key from which the proof of a doorbell is computed
//	t  token of the claim, new for every delivery; absent: free
//	w  name of the worker that claimed it
//	u  expiry of the claim ("until"), Unix ms by the clock of Redis
//	d  duration for which it was claimed or renewed, ms
//	r  time from which the owner publishes its task again, after its last holder released it, Unix ms
//
// Numbers are decimal text. A claim has expired if its expiry has passed, or lies further ahead than its duration, which means that the
// clock of Redis has stepped back.
//
// # Order
//
// A worker claims, acks the message, runs the handler, acks the lease, and sends the doorbell. A crash
//
//   - before the claim: the message is delivered again;
//   - between the claim and the ack of the message: the message is delivered again, and its claim is answered HELD;
//   - between the claim and the ack of the lease: the claim expires, and reconciliation dispatches the task again;
//   - between the ack of the lease and the doorbell: the ack has scheduled a wakeup two seconds ahead.
//
// Every script performs all its checks before it writes. A call whose reply was lost may be repeated: a claim with the same token is not
// counted again, a renewal is idempotent, and an ack or a release that took effect is answered GONE or STOLEN and writes nothing.
//
// # Trust
//
// A holder must detect the loss of its lease before another worker can claim it, although its clock and that of Redis are not
// synchronized. It therefore measures its trust window on its own monotonic clock, from a time that it takes before it sends the last
// successful claim or renewal: by the clock of Redis the claim cannot have started earlier. See Keeper.
//
// # Lost writes
//
// After a rollback Redis may hold a claim whose worker has acked or released the lease and does not renew it. An owner that takes over
// uncleanly, or detects that Redis has lost a commit, queries the worker of each claim that was not made or renewed since then
// (message.Hint with a Token). The worker acks again what it acked within the last TTL, and releases a claim of its own process that it
// does not know. Both use the scripts above, which compare the token, so a forged, late or repeated query has no effect. A crash
//
//   - of the worker, or the loss of the query: the claim expires;
//   - between the second ack and its doorbell: the ack has scheduled a wakeup two seconds ahead, as the first did.
//
// # Reports
//
// The worker of a cancelled activity records how the activity ended, next to the history, in the hash r:<instance>:<execution>. No
// decision depends on a report; if the worker crashes before it writes one, it is missing. See lease.Report.
package leases
