// Package client starts instances, sends them events, cancels them, waits for their
// results and asks about them. It speaks NATS only: it needs no access to Redis and
// links no code of it.
//
// What moves an instance (Start, Send, SendOrStart, Cancel, Purge) is published to a stream and
// takes effect whether or not an orchestrator is running at the moment; these return when
// the stream has the message, except Purge, which waits for its effect. What asks about
// instances (Describe, CustomStatus, List, History, Stuck), and about gates (QueueStats, Queues,
// Waiters, Holders, ClearQueue, Policies, SetPolicy, DeletePolicy), is answered by the orchestrators
// that own the partitions; while there are none, or no connection to NATS, it is repeated
// until its context ends (see Options.Patience), and fails with ErrNoOwner then; Workers is
// answered by the workers themselves. A result, or a custom status
// (NextStatus, WatchStatus), is pushed when it is there. A push may be lost with the owner
// that was to make it, so the request is repeated when a new owner announces itself, when a
// lost connection is back, and every five seconds.
//
// Every message carries an id, and is repeated under it until the stream has it or the
// context ends: it takes effect once. So a call outlasts the election of a stream's leader,
// and a lost connection. Its error matches ErrUnknown if the message may have been accepted;
// any other error means that it was not, and never will be.
package client
