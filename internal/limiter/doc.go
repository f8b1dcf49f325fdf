// Package limiter stores the limits of actions in Redis: their holders, and their waiters in FIFO order.
//
// The five Redis keys of a limit have their own hash tag, which differs from that of every instance. So no write is atomic across a limit
// and an instance, every script may run twice or late, and every operation is idempotent by the member that it concerns.
// docs/decisions/0014-limits.md describes the protocol.
//
//	                room and no waiters
//	   ┌──────────────────────────────────────────┐
//	(enter) ──▶ waiter ─────── head, and room ───▶ holder ──leave──▶ (completed)
//	               ├──leave──▶ (withdrawn)
//	               └──maximum wait, clear──▶ rejected ──leave──▶ (removed)
//
// # Keys
//
//	w  zset  waiters: member → number. Numbers ascend; they are the time of entry by Redis TIME, µs
//	h  zset  holders: member → time when it was last known to be required, or was last checked, ms
//	r  zset  rejected waiters: t (timed out) or c (cleared) and the member → time of the last notice, ms
//	g  list  times of the last grants, ms, ascending; kept only while a rate is in force
//	s  hash  everything else:
//	         p    policy in force, JSON     v   its version         d   declaration that came with it
//	         seq  last number               qs  quota: first grant of its window, ms     qn  its grants so far
//	         e    entered                   c   completed           w   withdrawn        t   timed out
//	         cl   cleared                   r   rejected at entry: too many waiters, or the policy rejects
//	         ha   waiters that name an ancestor that holds the limit     dl  '1': deadlocked at the last sweep
//	         u    last use, ms; 0: never (see register.lua)
//
// The counters satisfy e = waiters + holders + c + w + t + cl at all times: see Check.
//
// # Room
//
// There is room while there are fewer holders than the concurrency allows, fewer grants within the last window than the rate allows (a
// grant at t counts until just before t + window), and fewer grants than the quota in its window, which starts with its first grant. If
// the clock steps back, grants and quota windows in the future are void; numbers continue from the last one.
package limiter
