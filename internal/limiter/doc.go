// Package limiter is the place where the callers of an action queue, when the action is limited: who is in, who waits, in
// which order, and who has to be told.
//
// A gate lives in five Redis keys of one hash tag, which is its own and not that of any instance. So nothing is atomic
// between a gate and an instance, every script may be carried out twice or late, and everything about a gate is
// idempotent by the member that it is about. The protocol is in docs/decisions/0014-gates.md.
//
//	                 room and nobody waits
//	   ┌──────────────────────────────────────────┐
//	(enter) ──▶ waits ─────── head, and room ─────▶ in ──leave──▶ (completed)
//	               ├──leave──▶ (withdrawn)
//	               └──queue timeout, clear──▶ away ──leave──▶ (forgotten)
//
// # Keys
//
//	q  zset  who waits: member → number. Numbers ascend; they are Redis TIME in µs, so they are the age, too
//	a  zset  who is in: member → when it was last known to be wanted, or asked about, ms
//	x  zset  who was turned away: t (timed out) or c (cleared) and the member → when it was last told, ms
//	r  list  times of the last grants, ms, ascending; kept only while a rate is in force
//	s  hash  the rest:
//	         p   policy in force, JSON     v   its version         d   declaration that came with it
//	         k   last number               qs  quota: its window's first grant, ms     qn  grants since
//	         n   entered                   o   completed           w   withdrawn       t   timed out
//	         c   cleared                   f   refused: at once, by a full queue or a policy that rejects
//	         un  waiters that name who they are under              b   '1': deadlocked, at the last sweep
//	         u   last use, ms; 0: never (see known.lua)
//
// The counters keep n = waiting + in + o + w + t + c at all times: see Check.
//
// # Room
//
// There is room while fewer are in than the concurrency allows, fewer grants lie in the last window than the rate allows
// (a grant at t counts until just before t + window), and the quota of the window that the first grant opened is not used
// up. A clock that steps back makes grants and quota windows that lie in the future void; numbers go on from the last.
package limiter
