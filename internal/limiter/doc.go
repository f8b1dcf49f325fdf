// Package limiter has the limits of actions: holders, waiters in order, and the notices to their owners.
//
// A limit has five Redis keys with a hash tag of its own, which is not that of any instance. So nothing is atomic between a limit
// and an instance, every script may run twice or late, and every operation is idempotent by the member that it concerns. The
// protocol is in docs/decisions/0014-gates.md.
//
//	                room and no waiters
//	   ┌──────────────────────────────────────────┐
//	(enter) ──▶ waiter ─────── head, and room ───▶ holder ──leave──▶ (completed)
//	               ├──leave──▶ (withdrawn)
//	               └──maximum wait, clear──▶ rejected ──leave──▶ (removed)
//
// # Keys
//
//	w  zset  waiters: member → number. Numbers ascend; they are Redis TIME in µs, so they are the age, too
//	h  zset  holders: member → when last known to be required, or checked, ms
//	r  zset  rejected waiters: t (timed out) or c (cleared) and the member → time of the last notice, ms
//	g  list  times of the last grants, ms, ascending; kept only while a rate is in force
//	s  hash  the rest:
//	         p    policy in force, JSON     v   its version         d   declaration that came with it
//	         seq  last number               qs  quota: first grant of its window, ms     qn  grants since
//	         e    entered                   c   completed           w   withdrawn        t   timed out
//	         cl   cleared                   r   rejected at once, by too many waiters or a policy that rejects
//	         ha   waiters that name an ancestor that holds the limit     dl  '1': deadlocked, at the last sweep
//	         u    last use, ms; 0: never (see register.lua)
//
// The counters keep e = waiters + holders + c + w + t + cl at all times: see Check.
//
// # Room
//
// There is room while there are fewer holders than the concurrency allows, fewer grants in the last window than the rate allows
// (a grant at t counts until just before t + window), and the quota of the window that the first grant opened is not used up. If
// the clock steps back, grants and quota windows in the future are void; numbers continue from the last.
package limiter
