// Package worker runs activities: it takes tasks from the queues of the activities
// it has, claims their leases, runs them, and pushes what came of it to the inbox of
// the instance that wants it.
//
//	           one goroutine a queue          runner            one goroutine a running activity
//	TASKS ──▶ delivered ──▶ claim sent ──▶ YOURS ──▶ message acked ──▶ handler ──▶ ack sent ──▶ OK ──▶ doorbell
//	                            │             │                          ▲  │          │
//	                          error      HELD, GONE,                 keeper  │     GONE, STOLEN, EXPIRED:
//	                            │        EXHAUSTED: acked,          cancels  │     dropped, counted as
//	                      given back,    nothing runs                        │     cancelled or lost
//	                      tried again                                        ▼
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
// # Redis or NATS does not answer
//
// A task whose claim is not answered within a second, or fails, is given back, and with it all whose leases are on the
// same Redis node: other workers get them within milliseconds. Until that node answers, the worker asks for one task
// at a time; see reach. The claim itself is not withdrawn: it may have taken effect, and is then answered YOURS.
//
// A connection to NATS that is dead without the server knowing it (a black hole, a stopped process) is sent tasks
// until its requests expire, two seconds after they were made, and at most as many as there were free places.
// Each of them is delivered to another worker after two seconds. A worker that was killed is sent nothing more.
//
// # Cancelled
//
// The context of an activity is done when nobody wants its result (the keeper of package
// lease says so), when its lease is lost, and when the worker stops. From then on it has
// its grace:
//
//	context done ──▶ grace ──returns──▶ dropped, counted as cancelled or lost
//	                   └────is over───▶ abandoned: place free, lease no longer kept,
//	                                    logged with its stack ──returns──▶ forgotten
//
// How a cancelled activity ended is reported to the store, for whoever reads its history:
// after the fact, waited for by nobody, and lost if that can not be helped.
//
// # Gone before it was claimed
//
// Tasks whose leases are gone are taken out of the queue without a place in the worker.
// After a run of claims that were answered GONE a sweep looks at the next tasks, hundreds at
// a time, and claims none: what is wanted goes back to the queue, and the sweep is over.
// A crash in a sweep costs the tasks in hand an AckWait; those that were wanted are
// delivered again, and the others found gone by somebody else.
//
// # Stopping
//
//	taking ends ──▶ draining (Drain) ──▶ cancelled, WorkerStopping (grace) ──▶ leases given back, uncounted
//
// An activity that returns a result while it is told to stop is acked as ever; one that
// returns an error is given back, for the error is the worker's doing. One that does not
// return at all loses its lease to others, and Stop says its name. If Stop has less time
// than that takes, draining and grace are shortened, and an activity is told when the grace
// is over (pawl.GraceExpired): a program that it runs is killed then.
package worker
