// Package worker runs activities: it takes tasks from the queues of the activities
// it has, claims their leases, runs them, and pushes what came of it to the inbox of
// the instance that wants it.
//
//	           one goroutine a queue          runner            one goroutine a running activity
//	TASKS ──▶ delivered ──▶ claim sent ──▶ YOURS ──▶ message acked ──▶ handler ──▶ ack sent ──▶ OK ──▶ doorbell
//	                            │             │                          ▲  │          │
//	                          error      HELD, GONE,                 keeper  │     GONE, STOLEN, EXPIRED:
//	                            │        EXHAUSTED: acked,          cancels  │     dropped, counted as
//	                      tried again,   nothing runs                        │     cancelled or lost
//	                      then given back                                    ▼
//	                                                          place in the queue is free
//
// The claim decides, never the delivery: a task may be delivered twice, late, or after
// its activity was cancelled. From the claim on the lease answers for the activity, so
// the message is acked before the handler begins, and no limit of the broker bounds how
// long a handler may run.
//
// A worker that dies, at any step, costs the activity at most the TTL of its lease: then
// the owner's look dispatches it again. See package lease for the steps one by one.
//
// # Stopping
//
//	taking ends ──▶ draining (Drain) ──▶ cancelled, WorkerStopping (1 s) ──▶ leases given back, uncounted
//
// An activity that returns a result while it is told to stop is acked as ever; one that
// returns an error is given back, for the error is the worker's doing. One that does not
// return at all loses its lease to others, and Stop says its name.
package worker
