// Package core is the owner's protocol as a pure state machine: what the owner of a partition does with the inputs of its instances.
//
// # Messages and effects
//
// An Owner handles one Message at a time, and returns the effects of it, in their order:
//
//	      ──Message──▶ Owner.Step ──Effects──▶ package shard ──▶ store, limits, NATS, turns, timers
//	▲                                              │
//	└────────────────── answers ◀──────────────────┘
//
// It does no I/O, starts no goroutine, and reads neither a clock nor a random source: time comes with each message, random values with
// the beginning of the tenure. Log lines and counts are effects, too. Messages and effects are plain structs with a kind, so
// that a failure can be described by what came in and what went out (testdata has such cases), and what an owner did can be played again.
//
// The code of an instance is not here: a turn is an effect (RunTurn), and what it has decided is the answer (TurnDone). The
// state of the instance stays what the store has until the commit of the turn is confirmed. So a turn that is lost or too large
// costs the code that has run, and nothing else. (That of a turn that blocks keeps what it was given, so the instance is loaded again.)
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
// In every phase but absent and idle exactly one request, or a turn, is outstanding, and the phase determines what its answer means. An
// illegal transition (see legal) ends the tenure, so that the next begins with what the store has; it fails the tests.
//
// What arrives in such a phase is pending (see pending): an input that came into an empty inbox is kept, of any other it is noted only
// that it came. The note stays until a request is sent whose answer shows the inbox (loading, reading, committing). Behind each answer
// the instance goes on at one place, Owner.resume: it takes in what is pending, and makes its next step (Owner.advance). So no instance
// with unread inputs waits for its wake-up, as long as no doorbell is lost and no request fails: package tests/model searches for one
// that would.
//
// # Orders that matter
//
//   - An input is in its inbox before applied has moved past it: one script.
//   - A turn is in the store before any of its effects is sent: tasks, hints, messages and answers are effects of the message
//     that has the commit's answer. What a crash keeps from being sent is repaired by the reconciliation of the instance, which the
//     schedule of wake-ups has as long as there could be something to repair.
//   - Tickets of activities that a worker has ended leave their limits before the commit, all others behind it.
//   - A commit whose fate is unknown is sent again as it was, never decided again: the store recognizes it by its new head.
//   - What time decides comes behind every input that the stream had accepted before it was due: see horizon.go.
//   - A tenure that ends takes everything in memory with it.
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
package core
