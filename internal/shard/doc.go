// Package shard runs the owners of partitions and carries out their effects.
//
// # A partition is a shard
//
// A Process holds what the partitions of one process share: connections, policies, metrics. For each partition that the process owns, one
// goroutine (shard.run) takes messages from a mailbox, one at a time, passes them to the owner (package core), and carries out the effects:
//
//	mailbox ──message──▶ core.Owner.Step ──effects──▶ shell.do ──▶ store, limits, NATS, turner, timers
//	   ▲                                                                │
//	   └────────────────────────── answers ◀────────────────────────────┘
//
// Three more types have one job each: inputReader moves inputs from the stream to inboxes, queries answers the read-only requests of clients,
// and turner runs orchestration code on a goroutine that is abandoned, together with its instance, if that code blocks. The shell holds the
// resident code; the owner records only whether an instance is resident.
//
// # Crash points
//
// A process can crash between a message and its effects, between two effects of a message, and between an effect and the handling of its answer.
// The named crash points (see docs/crash-points.md) are in the shell, at the answers: ingested, turned, entered, committed, left, published,
// messaged, swept, purged, rewound; and answered, after the replies to the clients that wait for an end.
package shard
