// Package worker runs activities: it takes tasks from the queues of its activities, claims their leases, runs them, and pushes their
// completions to the inboxes of their instances.
//
//	        one goroutine per queue           Redis runner      one goroutine per running activity
//	TASKS ──▶ delivered ──▶ claim sent ──▶ ACQUIRED ──▶ message acked ──▶ handler ──▶ ack sent ──▶ OK ──▶ doorbell
//	                            │             │                            ▲  │          │
//	                          error      HELD, GONE,                   keeper  │     GONE, STOLEN, EXPIRED:
//	                            │        EXHAUSTED: acked,            cancels  │     dropped, counted as
//	                        returned,    handler not run                       │     cancelled or lost
//	                        retried                                            ▼
//	                                                              slot of the queue is free
//
// The claim decides, never the delivery: a task may be delivered twice, late, or after its activity was cancelled. From the claim on
// the lease protects the activity, so the message is acked before the handler starts, and no limit of the broker bounds the duration of
// a handler.
//
// The death of a worker delays an activity by at most the TTL of its lease: then the reconciliation of its owner dispatches it again. See
// package lease for each step.
//
// # Redis or NATS does not answer
//
// A task whose claim fails, or is not answered within a second, is returned to the queue, with all tasks whose leases are on the same Redis
// node: other workers receive them within milliseconds. Until that node answers, the worker requests one task at a time; see redisNodes.
// The claim itself is not withdrawn: it may have taken effect, and is then answered ACQUIRED.
//
// NATS sends tasks into a connection that is dead without its knowledge (packets are dropped, a process is paused) until its requests
// expire, two seconds after they were made, and at most as many as there were free slots. Each of them is delivered to another worker after
// two seconds. A worker that was killed receives no more tasks.
//
// # Cancellation
//
// The context of an activity ends when its result is no longer needed (the keeper of package lease detects it), when its lease is lost,
// and when the worker stops. Then its grace period begins:
//
//	context ends ──▶ grace period ──returns──▶ dropped, counted as cancelled or lost
//	                   └──────────expires────▶ abandoned: slot free, lease not renewed,
//	                                           logged with its stack ──returns──▶ removed
//
// How a cancelled activity ended is reported to the store, for its history: afterwards, without waiting, and lost if that fails.
//
// # Cancelled before the claim
//
// Tasks whose leases are gone are removed from the queue without using a slot. After a number of consecutive claims that were answered
// GONE, a sweep reads the leases of the next tasks, hundreds at a time, and claims none: required tasks return to the queue, and end the
// sweep. A crash in a sweep delays its tasks by AckWait; the required ones are delivered again, and the others found gone by another
// worker.
//
// # Stop
//
//	no more tasks ──▶ draining (Drain) ──▶ cancelled with WorkerStopping (grace period) ──▶ leases released, uncounted
//
// An activity that returns a result during the stop is acked as usual; one that returns an error is released, because the stop caused the
// error. One that does not return loses its lease to another worker, and Stop names it. If Stop has less time, Drain and the grace periods
// are shortened, and pawl.GraceExpired notifies the activities: package exec kills their programs then.
package worker
