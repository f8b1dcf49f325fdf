package transport

import (
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// Errors of a connection.
var (
	// ErrClosed is returned by every operation on a closed Conn.
	ErrClosed = errors.New("queue: closed")
	// ErrDisconnected is returned while there is no connection to NATS. A publish that was outstanding when the connection was lost
	// matches ErrUnknown, too.
	ErrDisconnected = errors.New("queue: not connected to NATS")
	// ErrNoNamespace is returned if the streams of the namespace do not exist yet.
	ErrNoNamespace = errors.New("queue: the namespace does not exist; has an orchestrator been started for it?")
)

// Errors of a publish. An error that does not match ErrUnknown means that the message was not accepted and will not be.
var (
	ErrUnknown    = message.ErrUnknown    // matches every error after which the message may have been accepted, or may still be
	ErrNoStream   = message.ErrNoStream   // no stream took the message: not accepted
	ErrStreamFull = message.ErrStreamFull // the stream is full until it is trimmed: not accepted
	ErrTimeout    = message.ErrTimeout    // no acknowledgement, or no reply, arrived in time; for a publish it also matches ErrUnknown
	ErrBusy       = message.ErrBusy       // too many publishes are outstanding
)

// Errors of a message. Those of a publish mean that the message was not accepted and never will be.
var (
	ErrBadInstance = message.ErrBadInstance
	ErrBadName     = message.ErrBadName
	ErrUnknownKind = message.ErrUnknownKind
	ErrTooLarge    = message.ErrTooLarge
	ErrMalformed   = message.ErrMalformed
	ErrForged      = message.ErrForged // a task whose content does not match its effect id
	ErrNewer       = message.ErrNewer  // a version that this program does not support
)

// Errors of reading and of requests.
var (
	// ErrDetached ends a Reader after a missed heartbeat, a reconnect, or the loss of its consumer or stream.
	ErrDetached = errors.New("queue: detached")
	// ErrMoved is returned if the stream does not have the expected message at a position: it is a different stream, or has lost its
	// tail.
	ErrMoved = errors.New("queue: the inputs stream is not the one that this position is from")
	// ErrNoOwner matches every *NoOwnerError.
	ErrNoOwner = errors.New("queue: no orchestrator owns the partition")
)

// NewerError is the error of a message of Pawl whose version this program does not support.
type NewerError struct {
	What         string // the kind of message
	Version, Max uint64 // version of the message, and the latest supported one
}

// Error returns the kind of message, both versions, and what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("queue: %s of version %d, this program reads up to %d: upgrade it", e.What, e.Version, e.Max)
}

// Is reports whether target is ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// MismatchError is the error of an existing stream whose configuration differs from the required one.
type MismatchError struct {
	Stream, Field string
	Have, Want    string
}

// Error returns the setting and both values.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("queue: stream %s has %s %q, this program requires %q: use the settings that the namespace was created with, or another namespace",
		e.Stream, e.Field, e.Have, e.Want)
}

// NoOwnerError is the error of a request without a responder: currently, no orchestrator owns the partition.
type NoOwnerError struct {
	Namespace string
	Partition int
}

// Error returns the partition and the namespace.
func (e *NoOwnerError) Error() string {
	return fmt.Sprintf("queue: no orchestrator owns partition %d of namespace %s: is one running?", e.Partition, e.Namespace)
}

// Is reports whether target is ErrNoOwner.
func (e *NoOwnerError) Is(target error) bool { return target == ErrNoOwner }

// Gap is the error of messages that were removed from the stream before they were ingested: another program trimmed the stream, or it
// was restored from a copy.
type Gap struct {
	After history.Position // last ingested position
	First uint64           // first sequence of the stream
}

// Error returns the number of missing sequences, over all partitions.
func (g *Gap) Error() string {
	return fmt.Sprintf("queue: the inputs stream begins at %d, expected %d: %d messages were removed before they were read (possibly of other partitions)",
		g.First, g.After.Seq+1, g.First-g.After.Seq-1)
}
