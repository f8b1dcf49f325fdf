// Package queue is for programs that connect to NATS for Pawl: the connection, the shortcut between the roles of one process, the errors
// of NATS that calls return, and the headers of inputs that programs without pkg/client publish. Where the messages go, and how they are
// stored, is described in docs/architecture.md.
//
// # Inputs from any NATS client
//
// Any NATS client with permission for one of these subjects can publish an input. The stream acknowledges it with its sequence: from then
// on it is not lost. An input that breaks a rule which the stream does not check is acknowledged, logged by its owner, and has no effect.
//
//	pawl.<ns>.to.<instance>.start.<orchestration>   body: the input of the orchestration
//	pawl.<ns>.to.<instance>.event.<name>            body: the payload of the event
//	pawl.<ns>.to.<instance>.update.<name>           body: the payload of the update; HeaderID is its id, and required
//	pawl.<ns>.to.<instance>.cancel                  body: the reason, as text or {"text":…,"by":…}
//	pawl.<ns>.to.<instance>.purge                   body: as for a cancel, and "force":true to purge a running instance
//	pawl.<ns>.to.<instance>.operate.<verb>          requests of operators: pause, resume, terminate, rewind, retry
//
// <ns> is the namespace. <instance> is the id with each dot replaced by a comma, so that it is a single token. All headers are optional:
// see the constants. A start can carry an event, so that the instance receives the event whether or not it already exists:
//
//	nats req pawl.default.to.t-1.start.tenant '{"paid":3}' -H Pawl-Event:paid
package queue

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/transport"
)

// DefaultNamespace is the namespace of a process that sets none.
const DefaultNamespace = "default"

// Bounds of what is published. A payload that is larger than MaxPayload can be stored outside of the message: see package pawlcodec.
const (
	MaxInstance   = 200       // bytes of an instance id
	MaxName       = 200       // bytes of the name of an orchestration, event, activity or queue
	MaxPayload    = 512 << 10 // bytes of one payload
	MaxPartitions = 1024      // partitions of a namespace
)

// Dial connects to NATS with Pawl's defaults: it reconnects indefinitely, waiting 50 ms to 1 s with jitter between attempts, and
// considers a connection lost if no ping was answered for 4.5 s. If no server is reachable (each is tried for 2 s), it returns the
// connection nevertheless and connects in the background: client.New and the Start of an orchestrator or worker wait for it. A connection
// that is rejected (bad credentials, mismatched TLS, a bad URL) is an error with a text of one line. With nats.RetryOnFailedConnect(false)
// an unreachable server is an error, too.
//
// url may list several servers, separated by commas. opts override the defaults. Asynchronous errors of the connection are
// logged to slog.Default unless nats.ErrorHandler is among opts. The caller closes the connection.
func Dial(url string, opts ...nats.Option) (*nats.Conn, error) {
	return transport.Dial(url, opts...)
}

// DialContext is Dial for a program that can be stopped while it waits for a server that does not reply: if ctx ends first, it returns
// the cause immediately. The outstanding attempt ends on its own, and closes its connection. ctx bounds only the first attempt.
func DialContext(ctx context.Context, url string, opts ...nats.Option) (*nats.Conn, error) {
	return transport.DialContext(ctx, url, opts...)
}

// Local connects the orchestrator and the workers of one process, which have it as their Config.Local: tasks and doorbells between them do
// not go through NATS. It is only a shortcut: a task takes the regular path if the workers of the process have no free slot, and is
// protected by its lease either way. It is safe for concurrent use.
type Local transport.Local

// NewLocal returns a Local that connects nothing yet.
func NewLocal() *Local { return (*Local)(transport.NewLocal()) }
