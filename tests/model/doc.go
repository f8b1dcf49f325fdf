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
// A state is safe if Check returns nothing, and live if the fair world that goes on from it comes to rest with nothing missing
// (Finished).
//
// At limits (those of package memlimit) these are promised, as seen from outside:
//
//	limit     who runs is a holder. After a rollback more may run than the concurrency: by as many grants as the limit has
//	          forgotten, or ends as an instance has. Who runs and asks again is a holder again, whatever has been forgotten
//	order     nobody who came to a limit later is let in before somebody who waits there, and nobody who waits loses its place
//	liveness  once nothing goes wrong any more, every instance ends, and no member is left at a limit
//	no leak   a slot that nobody wants is free, and a grant that got lost is taken up, after two visits of the limit
//	counts    entered = waiting + in + completed + withdrawn + timed out + cleared
//	rate      no window has more grants than the rate
//
// Time is discrete: it passes to the next moment that something waits for. Scripts of limits may share a millisecond; what follows from one
// comes later.
package model
