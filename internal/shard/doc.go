// Package shard carries out what the owners of partitions decide.
//
// # A partition is a shard
//
// A Process has what all partitions of a process share: connections, policies, metrics. For each partition that it owns one goroutine (shard.run)
// takes messages from a mailbox, one at a time, gives them to the owner (package core), and carries out the effects:
//
//	mailbox ──message──▶ core.Owner.Step ──effects──▶ shell.do ──▶ store, limits, NATS, turner, timers
//	   ▲                                                                │
//	   └────────────────────────── answers ◀────────────────────────────┘
//
// Three more types have a job of their own: inputReader puts inputs into inboxes, queries answers the read-only requests of clients,
// turner runs the code of authors, on a goroutine that is left behind with its instance if that code blocks. The shell keeps
// the code that is in memory (residents); the owner records only that it is there.
//
// # Crash points
//
// Between a message and its effects, between two effects of a message, and between an effect and the handling of its answer. The named
// ones (see docs/crash-points.md) are in the shell, at the answers: ingested, turned, entered, committed, left, published, `told`, swept,
// purged; and answered, behind the replies to the clients that wait for an end.
package shard
