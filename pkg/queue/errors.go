package queue

import "github.com/pawlrun/pawl/internal/transport"

// Errors of a connection.
var (
	// ErrClosed is returned by every operation on a closed client, orchestrator or worker.
	ErrClosed = transport.ErrClosed
	// ErrDisconnected is returned while there is no connection to NATS. A publish that was outstanding when the connection was lost
	// matches ErrUnknown, too.
	ErrDisconnected = transport.ErrDisconnected
	// ErrNoNamespace is returned if no orchestrator has created the namespace yet.
	ErrNoNamespace = transport.ErrNoNamespace
	// ErrPermission is returned if the NATS user does not have a required permission. The text names the subject.
	ErrPermission = transport.ErrPermission
)

// Errors of a publish. An error that does not match ErrUnknown means that the message was not accepted and will not be.
var (
	ErrUnknown    = transport.ErrUnknown    // matches every error after which the message may have been accepted, or may still be
	ErrNoStream   = transport.ErrNoStream   // no stream took the message: not accepted
	ErrStreamFull = transport.ErrStreamFull // the stream is full until it is trimmed: not accepted
	ErrTimeout    = transport.ErrTimeout    // no acknowledgement, or no reply, arrived in time; for a publish it also matches ErrUnknown
	ErrBusy       = transport.ErrBusy       // too many publishes are outstanding
)

// Errors of a message. Those of a publish mean that the message was not accepted and never will be.
var (
	ErrBadInstance = transport.ErrBadInstance // the instance id breaks a rule
	ErrBadName     = transport.ErrBadName     // a name breaks a rule
	ErrTooLarge    = transport.ErrTooLarge    // a payload exceeds MaxPayload
	ErrMalformed   = transport.ErrMalformed
	ErrNewer       = transport.ErrNewer // a version that this program does not support: upgrade it
)

// ErrNoOwner is returned if currently no orchestrator owns the partition of the instance. The text names the partition.
var ErrNoOwner = transport.ErrNoOwner
