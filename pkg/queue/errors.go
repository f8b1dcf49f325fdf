package queue

import (
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// Errors of a connection.
var (
	// ErrClosed is the error of everything that is done with a closed Conn.
	ErrClosed = errors.New("queue: closed")
	// ErrDisconnected is returned without a connection to NATS. A publish that was under way when the connection was
	// lost returns ErrUnknown too.
	ErrDisconnected = errors.New("queue: not connected to NATS")
	// ErrNoNamespace says that the streams of the namespace do not exist yet.
	ErrNoNamespace = errors.New("queue: the namespace does not exist; has an orchestrator been started for it?")
)

// Errors of a publish. One that does not match ErrUnknown means that the message was not accepted and never will be.
var (
	// ErrUnknown is matched by every error after which the message may have been accepted, or may still be: the
	// acknowledgement did not come, or cannot be read, or the connection was lost while it was awaited.
	ErrUnknown = errors.New("queue: unknown whether the message was accepted")
	// ErrNoStream is returned if no stream took the message: not accepted.
	ErrNoStream = errors.New("queue: no stream took the message: its leader is being elected, JetStream is not enabled, or the namespace is gone")
	// ErrStreamFull is returned if the stream has reached its limit and takes nothing until it is trimmed: not accepted.
	ErrStreamFull = errors.New("queue: the stream is full until orchestrators have read and trimmed it: publish again later, or raise --inputs-max-bytes")
	// ErrTimeout is returned if no acknowledgement, or no reply, came in time. Of a publish it is ErrUnknown too.
	ErrTimeout = errors.New("queue: no acknowledgement in time")
	// ErrBusy says that too many publishes wait for their acknowledgement.
	ErrBusy = errors.New("queue: too many publishes in flight")
)

// Errors of a message.
var (
	ErrBadInstance = errors.New("queue: bad instance id")
	ErrBadName     = errors.New("queue: bad name")
	ErrUnknownKind = errors.New("queue: unknown kind of input")
	ErrTooLarge    = errors.New("queue: payload too large")
	ErrMalformed   = errors.New("queue: malformed message")
	ErrForged      = errors.New("queue: forged message") // a task that is not what its effect id was made of
	// ErrNewer matches a *NewerError.
	ErrNewer = errors.New("queue: message of a newer version")
)

// Errors of reading and asking.
var (
	// ErrDetached ends a Reader: a missed heartbeat, a reconnect, a consumer or stream that is gone.
	ErrDetached = errors.New("queue: detached")
	// ErrMoved says that the stream does not have, at the position that was named,
	// the message that was meant: it is another stream, or has lost its tail.
	ErrMoved = errors.New("queue: the inputs stream is not the one that this position is from")
	// ErrNoOwner matches a *NoOwnerError.
	ErrNoOwner = errors.New("queue: no orchestrator owns the partition")
)

// NewerError is a message of ours whose version this program does not know.
type NewerError struct {
	What         string // the sort of message
	Version, Max uint64 // what it has; the latest that this program reads
}

// Error says which message, and what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("queue: %s of version %d, this program reads up to %d: upgrade it", e.What, e.Version, e.Max)
}

// Is makes it match ErrNewer.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// MismatchError is a stream that exists and is not as it must be.
type MismatchError struct {
	Stream, Field string
	Have, Want    string
}

// Error says both sides.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("queue: stream %s has %s %q, this program wants %q: use the settings that the namespace was created with, or another namespace",
		e.Stream, e.Field, e.Have, e.Want)
}

// NoOwnerError is a request that nobody answered, because at the moment no
// orchestrator owns the partition.
type NoOwnerError struct {
	Namespace string
	Partition int
}

// Error says which partition.
func (e *NoOwnerError) Error() string {
	return fmt.Sprintf("queue: no orchestrator owns partition %d of namespace %s: is one running?", e.Partition, e.Namespace)
}

// Is makes it match ErrNoOwner.
func (e *NoOwnerError) Is(target error) bool { return target == ErrNoOwner }

// Gap says that messages were removed from the stream before they were ingested:
// the stream was trimmed by somebody else, or restored from a copy.
type Gap struct {
	After history.Position // what was ingested last
	First uint64           // the first sequence that the stream still has
}

// Error says how many sequences are missing; they are of all partitions together.
func (g *Gap) Error() string {
	return fmt.Sprintf("queue: the inputs stream begins at %d, expected %d: %d messages were removed before they were read (some of them perhaps of other partitions)",
		g.First, g.After.Seq+1, g.First-g.After.Seq-1)
}
