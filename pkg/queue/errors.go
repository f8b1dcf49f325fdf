package queue

import (
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// Errors of a connection.
var (
	// ErrClosed is returned by every operation on a closed Conn.
	ErrClosed = errors.New("queue: closed")
	// ErrDisconnected is returned without a connection to NATS. A publish that was outstanding when the connection was
	// lost returns ErrUnknown too.
	ErrDisconnected = errors.New("queue: not connected to NATS")
	// ErrNoNamespace is returned if the streams of the namespace do not exist yet.
	ErrNoNamespace = errors.New("queue: the namespace does not exist; has an orchestrator been started for it?")
)

// Errors of reading and of requests.
var (
	// ErrDetached ends a Reader: a missed heartbeat, a reconnect, a consumer or stream that is gone.
	ErrDetached = errors.New("queue: detached")
	// ErrMoved is returned if the stream does not have the expected message at a
	// position: it is another stream, or has lost its tail.
	ErrMoved = errors.New("queue: the inputs stream is not the one that this position is from")
	// ErrNoOwner matches a *NoOwnerError.
	ErrNoOwner = errors.New("queue: no orchestrator owns the partition")
)

// NewerError is a message of Pawl whose version this program does not support.
type NewerError struct {
	What         string // the kind of message
	Version, Max uint64 // of the message; the latest supported one
}

// Error names the message, and what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("queue: %s of version %d, this program reads up to %d: upgrade it", e.What, e.Version, e.Max)
}

// Is matches ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// MismatchError is an existing stream with another configuration than required.
type MismatchError struct {
	Stream, Field string
	Have, Want    string
}

// Error names both values.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("queue: stream %s has %s %q, this program requires %q: use the settings that the namespace was created with, or another namespace",
		e.Stream, e.Field, e.Have, e.Want)
}

// NoOwnerError is a request without a responder: no orchestrator owns the partition at present.
type NoOwnerError struct {
	Namespace string
	Partition int
}

// Error names the partition.
func (e *NoOwnerError) Error() string {
	return fmt.Sprintf("queue: no orchestrator owns partition %d of namespace %s: is one running?", e.Partition, e.Namespace)
}

// Is matches ErrNoOwner.
func (e *NoOwnerError) Is(target error) bool { return target == ErrNoOwner }

// Gap reports that messages were removed from the stream before they were ingested: another program trimmed the stream, or
// it was restored from a copy.
type Gap struct {
	After history.Position // the last ingested position
	First uint64           // the first sequence of the stream
}

// Error reports the number of missing sequences; they are of all partitions together.
func (g *Gap) Error() string {
	return fmt.Sprintf("queue: the inputs stream begins at %d, expected %d: %d messages were removed before they were read (some of them perhaps of other partitions)",
		g.First, g.After.Seq+1, g.First-g.After.Seq-1)
}
