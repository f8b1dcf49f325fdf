// Package client starts instances, sends events to them, cancels them, waits for their results and reads their state. It communicates
// through NATS only: it needs no access to Redis and links no Redis client.
//
// Start, Send, SendOrStart, Client.Cancel and Client.Purge publish a message to a stream, and take effect even if no orchestrator is
// running at the time. They return when the stream has stored the message; Purge also waits for its effect. Every message has an id and
// is repeated under this id until it is stored or ctx ends, so it takes effect once. If the error matches ErrUnknown, the message may
// have been accepted; any other error means that it was not accepted and never will be.
//
// All other operations are requests. The orchestrators that own the partitions answer requests about instances, limits and policies;
// workers answer requests about workers. While a partition has no owner or the connection is lost, a request is repeated until its
// context ends (see Options.OwnerTimeout), and then fails with ErrNoOwner.
//
// Results and custom statuses are pushed as soon as they exist. A push is lost if the owner that would send it dies, so the request is
// also repeated when a new owner announces itself, when the connection is restored, and every five seconds.
package client
