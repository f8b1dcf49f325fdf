// Package client starts instances, sends events to them, cancels them, waits for their results and reads their state. It uses
// NATS only: it requires no access to Redis and links no code of it.
//
// Start, Send, SendOrStart, Client.Cancel and Client.Purge publish a message to a stream and take effect whether or not an
// orchestrator is running. They return when the stream has stored the message; Purge also waits for its effect. Every message has
// an id and is repeated under it until it is stored or ctx ends, so it takes effect once. An error matches ErrUnknown if the
// message may have been accepted; any other error means that it was not, and never will be.
//
// All other operations are requests. Those about instances, limits and policies are answered by the orchestrators that own the
// partitions, those about workers by the workers. While a partition has no owner, or the connection is lost, a request is repeated
// until its context ends (see Options.OwnerTimeout), and then fails with ErrNoOwner.
//
// A result or a custom status is pushed when it exists. A push may be lost with the owner that would have sent it, so the request
// is repeated when a new owner announces itself, when the connection is back, and every five seconds.
package client
