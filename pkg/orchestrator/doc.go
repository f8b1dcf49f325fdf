// Package orchestrator runs orchestrations: it owns partitions and turns the inputs of their instances into history, leases and tasks.
//
// # A partition is a shard
//
// One goroutine (shard.run) handles the messages of a partition, one at a time:
//
//	mailbox ──message──▶ actor.step ──effects──▶ shell.do ──▶ store, limits, NATS, turner, timers
//	   ▲                                                            │
//	   └──────────────────────── answers ◀──────────────────────────┘
//
// The actor decides. It has the instances in memory, does no I/O and starts no goroutine, so there are no locks. What it wants done it
// collects as effects, which the shell carries out behind the message, in their order, and whose answers the shell posts as messages.
// Both are plain structs with a kind (see message and effect), so that a failure can be described by what came in and what went out.
// Three more types have a job of their own: inputReader puts inputs into inboxes, queries answers the read-only requests of clients,
// turner runs the code of authors, on a goroutine that is left behind with its instance if that code blocks.
//
// # Phases of an instance
//
//	absent ──▶ loading ──▶ idle ──▶ turning ──▶ admitting ──▶ committing ──▶ idle ──▶ … ended, forgotten
//	                        │ ▲                                │    ▲  │
//	                        │ │                                └────┘  └──▶ conflict: absent, loaded again
//	                        ▼ │                        reply lost: the same commit again
//	            reading, searching, admitting start, reconciling, settling, suspending,
//	            keeping early inputs, releasing tickets, purging, finding wipe, wiping
//
// In every phase but absent and idle exactly one request, or a turn, is outstanding, and the phase says what its answer means. The table
// transitions has the legal ones. An illegal one ends the tenure, so that the next begins with what the store has; it fails the tests.
//
// What arrives in such a phase is pending (see pending): an input that came into an empty inbox is kept, of any other it is noted only
// that it came. The note stays until a request is sent whose answer shows the inbox (loading, reading, committing). Behind each answer
// the instance goes on at one place, actor.resume: it takes in what is pending, and makes its next step (actor.advance). So no instance
// with unread inputs waits for its wake-up, as long as no doorbell is lost and no request fails: package tests/model/wakeup searches
// for one that would.
//
// # Orders that matter
//
//   - An input is in its inbox before applied has moved past it: one script.
//   - A turn is in the store before any of its effects is sent: tasks, hints, messages and answers are effects of the message
//     that has the commit's answer. What a crash keeps from being sent is repaired by the reconciliation of the instance, which the
//     schedule of wake-ups has as long as there could be something to repair.
//   - Tickets of activities that a worker has ended leave their limits before the commit, all others behind it.
//   - A commit whose fate is unknown is sent again as it was, never decided again: its new head tells the store whether it has it.
//   - What time decides comes behind every input that the stream had accepted before it was due: see horizon.go.
//   - A tenure that ends takes everything in memory with it.
//
// # Crash points
//
// Between a message and its effects, between two effects of a message, and between an effect and the handling of its answer. The named
// ones (see docs/crash-points.md) are in the shell, at the answers: ingested, turned, entered, committed, left, published, told, swept,
// purged; and answered, behind the replies to the clients that wait for an end.
//
// # Reconciliation
//
// A wake-up without inputs and without due timers reconciles the leases: a claim that has expired is dispatched again; a
// lease claimed too often becomes a failure, as an input of a turn; a task that
// no worker has claimed is sent again, if its queue is empty or the oldest message in it
// is younger than the last sending, so that a backlog does not multiply itself.
//
// When the TASKS stream has lost its content, every partition reconciles at once all that is due within the
// reconcile interval, and sends again what was sent before the loss; see tasksLoss.
//
// An activity that no worker has claimed for a reconcile interval is compared with what the workers report: if none
// has it, or none reads its queue, its instance is listed with the stalled ones, though it is not stalled itself.
//
// # Stalls
//
// An instance that cannot be turned (its orchestration is not registered, its history does not
// fit the code or does not decode, its code blocks) is stalled: its inbox is kept,
// it is listed with the reason, and it is tried again with growing pauses, and at
// once when another process takes the partition. Code that blocks three times fails the
// instance; nothing else does.
package orchestrator
