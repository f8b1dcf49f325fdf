// Package worker runs activities: it takes tasks from the task queues of its activities, claims their leases, runs their handlers, and
// pushes the completions to the inboxes of the instances.
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
// The claim is authoritative, not the delivery: a task may be delivered twice, late, or after its activity was cancelled. Once claimed,
// the activity is protected by its lease, so the message is acked before the handler starts, and no broker timeout limits the duration of
// a handler.
//
// The death of a worker delays an activity by at most the TTL of its lease; then reconciliation by the owner dispatches it again. Package
// lease describes the effect of a crash at each step.
//
// # Redis or NATS unavailable
//
// A task whose claim fails, or is not answered within a second, is returned to the queue together with all other tasks whose leases are
// on the same Redis node: other workers receive them within milliseconds. Until that node answers, the worker requests one task at a
// time; see redisNodes. The claim itself is not withdrawn, because it may have taken effect; in that case it is answered ACQUIRED and the
// activity runs here.
//
// If a connection dies without NATS noticing (packets are dropped, the process is paused), NATS keeps sending tasks into it until the
// worker's outstanding requests expire, two seconds after they were made. At most as many tasks are sent as there were free slots. Each
// of them is delivered to another worker after two seconds. A worker that was killed receives no more tasks.
//
// # Cancellation
//
// The context of an activity ends when its result is no longer required (the keeper of package lease detects this), when its lease is
// lost, and when the worker stops. Then the grace period of the activity begins:
//
//	context ends ──▶ grace period ──returns──▶ dropped, counted as cancelled or lost
//	                   └──────────expires────▶ abandoned: slot free, lease not renewed,
//	                                           logged with its stack ──returns──▶ removed
//
// The worker reports how a cancelled activity ended to the store, for readers of the history. Nothing waits for the report, and it is
// lost if the write fails.
//
// # Cancelled before the claim
//
// Tasks whose leases are gone are removed from the queue without occupying a slot. After a number of consecutive claims that were
// answered GONE, a sweep reads the leases of the next tasks, hundreds at a time, and claims none of them. Tasks that are still required
// return to the queue and end the sweep. A crash during a sweep delays its tasks by AckWait: they are delivered again, and another worker
// runs the required ones and finds the others gone.
//
// # Stop
//
//	no more tasks ──▶ draining (Drain) ──▶ cancelled with WorkerStopping (grace period) ──▶ leases released, uncounted
//
// An activity that returns a result during the stop is acked as usual. The lease of an activity that returns an error is released,
// because the stop may have caused the error. An activity that does not return loses its lease to another worker, and the error of Stop
// names it. If the context of Stop leaves less time, Drain and the grace periods are shortened, and the channel of pawl.GraceExpired is
// closed: package exec then kills the program of its activity.
package worker
