// Package core is the protocol of a partition's owner as a pure state machine: it decides what the owner does with the inputs of its instances.
//
// # Messages and effects
//
// An Owner handles one Message at a time and returns its effects in order:
//
//	      ──Message──▶ Owner.Step ──Effects──▶ package shard ──▶ store, limits, NATS, turns, timers
//	▲                                              │
//	└────────────────── answers ◀──────────────────┘
//
// It does no I/O, starts no goroutine, and reads neither a clock nor a random source: each message carries the time, and the first
// message of the tenure carries the random values. Log lines and counts are effects, too. Messages and effects are plain structs with a
// kind. A failure can therefore be described by the messages and effects that led to it (see testdata), and a recorded run can be replayed.
//
// The code of an instance does not run here: a turn is an effect (RunTurn), and its decisions are the answer (TurnDone). The in-memory
// state of the instance stays equal to the stored state until the commit of the turn is confirmed. A turn that is lost or too large
// therefore costs nothing but the code that has run. (A turn that blocks keeps the values it was given, so the instance is loaded again.)
//
// # Phases of an instance
//
//	absent ──▶ loading ──▶ idle ──▶ turning ──▶ admitting ──▶ committing ──▶ idle ──▶ … ended, dropped
//	                        │ ▲                                │    ▲  │
//	                        │ │                                └────┘  └──▶ conflict: absent, loaded again
//	                        ▼ │                        reply lost: the same commit again
//	            reading, searching, admitting start, reconciling, settling, suspending,
//	            keeping early inputs, releasing tickets, purging, finding wipe, wiping
//
// In every phase but absent and idle exactly one request, or a turn, is outstanding, and the phase determines what its answer means. An
// illegal transition (see legal) ends the tenure, so that the next one starts from the stored state; it also fails the tests.
//
// Inputs that arrive in a busy phase are pending (see pending). An input that arrived in an empty inbox is kept in memory; any other
// input only marks the inbox as stale, until a request is sent whose answer includes the inbox (loading, reading, committing). After
// each answer the instance continues at one place, Owner.resume: it takes in the pending inputs and makes its next step (Owner.advance).
// So no instance with unread inputs has to wait for its wakeup, unless a doorbell is lost or a request fails. Package tests/model searches
// for a state that violates this.
//
// # Orders that matter
//
//   - An input is in its inbox before the applied position has moved past it: one script does both.
//   - A turn is stored before any of its effects is sent: tasks, hints, messages and answers are effects of the message
//     that carries the commit's answer. If a crash prevents the sending, the reconciliation of the instance repairs it. A wakeup for that
//     stays scheduled as long as there could be something to repair.
//   - The tickets of activities that a worker has ended leave their limits before the commit, all others after it.
//   - A commit whose fate is unknown is sent again unchanged, never decided again: the store recognizes it by its new head.
//   - A decision by time is ordered after every input that the stream accepted before the time was due: see horizon.go.
//   - When a tenure ends, its whole in-memory state is discarded.
//
// # Reconciliation
//
// A wakeup without inputs and without due timers reconciles the leases: an activity whose claim has expired is dispatched again; a
// lease that was claimed too often becomes a failure, as an input of a turn; the task of an unclaimed lease is
// sent again if its queue is empty, or if the oldest message in the queue is younger than the last sending. A backlog therefore does not
// multiply itself.
//
// When the TASKS stream has lost its content, every partition at once reconciles everything that is due within the
// reconcile interval, and resends the tasks that were sent before the loss; see tasksLost.
//
// An activity that no worker has claimed for a reconcile interval is compared with the reports of the workers: if no worker has a handler
// for it, or none reads its queue, its instance is listed with the stalled instances, though it is not stalled itself.
//
// # Stalls
//
// An instance that cannot take a turn (its orchestration is not registered, its history does not
// match the code or does not decode, its code blocks) is stalled: it keeps its inbox,
// it is listed with the reason, and it is retried with a growing backoff, and
// at once when another process acquires the partition. Only code that blocks three times fails the
// instance.
package core
