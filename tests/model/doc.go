// Package model searches the states of an owner for one that breaks a promise, breadth first and by random walks.
//
// The owner is the real one (package core), so are the turns (package turn) and the orchestrations; the store is that of package
// memstore. Around them is a small world: a stream, tasks, workers, and a network that delivers requests in any order, and may lose
// a reply, deliver a request twice, or return the store to an earlier state; owners die and others acquire.
//
//	plan of inputs ──▶ stream ──▶ ingest ─┐
//	         ▲                            ▼
//	         └── messages ◀── Owner ◀──▶ memstore.Store ◀── claims, acknowledgements ◀── workers ◀── tasks
//
// A state is safe if Check returns nothing, and live if the fair world that continues from it comes to rest with nothing missing
// (Finished).
//
// At limits (those of package memlimit) these are promised, as seen from outside:
//
//	limit     every running member is a holder. After a rollback more may run than the concurrency: by as many grants as the limit has
//	          lost, or ends as an instance has lost. A running member that is requested again is a holder again, whatever was lost
//	order     no member that entered a limit later is admitted before one that waits there, and no waiter loses its position
//	liveness  once no more faults occur, every instance ends, and no member is left at a limit
//	no leak   after two visits of the limit an unused slot is free, and a lost grant is used
//	counts    entered = waiting + in + completed + withdrawn + timed out + cleared
//	rate      no window has more grants than the rate
//
// Time is discrete: it passes to the next moment that something waits for. Scripts of limits may share a millisecond; what follows from one
// comes later.
package model
