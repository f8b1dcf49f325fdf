// Package orchestrator runs orchestrations: it owns partitions and turns what comes
// in for their instances into history, leases and tasks.
//
// # A partition is an actor
//
// One goroutine (actor.run) alone touches the instances of a partition, so there
// are no locks. Everything that takes time is sent off and comes back through the
// actor's mailbox:
//
//	reader ──batch──▶ ingest script ──┐
//	doorbells ────────────────────────┤
//	agenda (due script) ──────────────┼──▶ mailbox ──▶ actor ──▶ load, read, turn, commit, look
//	answers of all of these ──────────┤
//	asks of clients ──────────────────┘
//
// Turns run on a helper goroutine (turner), one after the other, because user code
// may block: a helper that is stuck is left behind with its instance, and the
// others go on with a new one.
//
// # One instance in memory
//
//	                  ┌──────────── conflict, error of the turn ─────────────┐
//	                  ▼                                                      │
//	absent ──▶ loading ──▶ idle ──▶ turning ──▶ committing ──▶ idle ──▶ … ended, forgotten
//	                        │ ▲                     │ ▲
//	                        ▼ │                     └─┘ reply lost: the same commit again
//	                      looking, reading
//
// At most one thing is under way for an instance (busy). What arrives meanwhile is
// kept in late, because the answer of a commit shows only what was in the inbox
// when it ran. An input that arrives behind others is only noted (missed), and the note
// stays until a request is sent whose answer shows the inbox. So no instance with unread
// inputs waits for the agenda, as long as no doorbell is lost and no request fails: package
// tests/model/wakeup searches for one that would.
//
// # Orders that matter
//
//   - An input is in its inbox before applied has moved past it: one script.
//   - A turn is in the store before any of its effects is sent: tasks, hints and
//     answers follow the answer of the commit. What a crash keeps from being sent is
//     repaired by the look; the agenda has every instance that could need one.
//   - A commit whose fate is unknown is sent again as it was, never decided again:
//     its new head tells the store whether it has it.
//   - Whatever time decides comes behind every input that the stream had accepted before
//     it was due: see horizon.go.
//   - A tenure that ends takes everything in memory with it.
//
// # Looking
//
// The agenda says when an instance must be looked at. A look without inputs and
// without due timers sees to the leases: a claim that is over is dispatched again; a
// lease claimed too often becomes a failure, as an input of a turn; a task that
// nobody has claimed is sent again, if its queue is empty or the oldest message in it
// is younger than the last sending, so that a backlog does not multiply itself.
//
// When the TASKS stream has lost its content, every partition looks at once at all that is due within the
// reconcile interval, and sends again what was sent before the loss; see tasksLoss.
//
// An activity that nobody has claimed for a look interval is compared with what the workers report: if none
// has it, or none reads its queue, its instance is listed with the stalled ones, though it is not stalled itself.
//
// # Stalls
//
// An instance that can not be turned (nobody registers it, its history does not
// fit the code or does not decode, its code blocks) is stalled: its inbox is kept,
// it is listed with the reason, and it is tried again with a growing pause, and at
// once when another process takes the partition. Code that blocks three times fails the
// instance; nothing else does.
package orchestrator
