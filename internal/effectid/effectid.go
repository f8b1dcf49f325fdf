// Package effectid derives the ids of effects, executions and spans from what was decided, so that a turn that is decided again in the same
// way has the same ids, and so do the tasks, children and messages that it sends.
package effectid

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/pawlrun/pawl/pkg/history"
)

// Identity identifies an execution among all others, including earlier ones with the same instance id.
type Identity struct {
	Instance  string
	Origin    history.Position
	Execution uint64
}

// Append appends the encoding of the identity, from which ids are derived, to b.
func (id Identity) Append(b []byte) []byte {
	b = AppendText(b, id.Instance)
	b = binary.BigEndian.AppendUint64(b, id.Origin.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(id.Origin.Time)) //nolint:gosec // the bits, not the number
	return binary.BigEndian.AppendUint64(b, id.Execution)
}

// Of identifies the effect of a decision: 128 bits of SHA-256 over everything that distinguishes the decision, in 22 characters
// of base64url. A turn that is decided again in the same way produces the same id; a different decision produces another one.
func Of(id Identity, eventID uint64, kind history.Kind, name string, payload history.Payload) string {
	b := make([]byte, 0, 512)
	b = id.Append(b)
	b = binary.BigEndian.AppendUint64(b, eventID)
	b = append(b, byte(kind))
	b = AppendText(b, name)
	b = AppendText(b, payload.Type)
	b = append(b, payload.Data...)
	return Digest(b)
}

// Activity returns the effect id of an activity. It covers everything on which a worker acts (name, queue, attempt, call key and
// payload), so that a task can be compared with the id of its lease.
func Activity(id Identity, e *history.ActivityScheduled) string {
	b := make([]byte, 0, 512)
	b = AppendText(b, e.Name)
	b = AppendText(b, e.Queue)
	b = binary.BigEndian.AppendUint32(b, e.Attempt)
	b = AppendText(b, e.First)
	return Of(id, e.ID, history.KindActivityScheduled, string(b), e.Payload)
}

// AppendText appends a text, preceded by its length, so that different lists of texts have different encodings.
func AppendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Digest returns 128 bits of the SHA-256 of b in 22 characters of base64url.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Broadcast returns the id of all messages that an instance broadcasts. It is stable over executions and rewinds.
func Broadcast(instance string, origin history.Position) string {
	return Digest(Identity{Instance: instance, Origin: origin}.Append([]byte("broadcast")))
}

// IdentityOf returns the identity under which the events of an execution were recorded: own, or that of the exported instance.
func IdentityOf(e *history.Started, own Identity, execution uint64) Identity {
	own.Execution = execution
	for _, r := range e.Recorded {
		if execution <= r.Execution {
			own.Instance, own.Origin = r.Instance, r.Origin
			break
		}
	}
	return own
}

// StartTrace returns the trace id and the start span id of an instance. The trace id applies to a start without a trace context.
func StartTrace(instance string, origin history.Position) (trace [16]byte, span [8]byte) {
	b := Identity{Instance: instance, Origin: origin}.Append([]byte("pawl.start\x00"))
	sum := sha256.Sum256(b)
	copy(trace[:], sum[:])
	copy(span[:], sum[16:])
	return trace, span
}

// EventSpan returns the span id of a history event.
func EventSpan(id Identity, event uint64) (span [8]byte) {
	b := id.Append([]byte("pawl.event\x00"))
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, event))
	copy(span[:], sum[:])
	return span
}

// UpdateKey identifies an update among all updates of its instance. Names contain no spaces.
func UpdateKey(name, id string) string { return name + " " + id }

// Update is UpdateKey for an update that was received.
func Update(e *history.UpdateReceived) string { return UpdateKey(e.Name, e.UpdateID) }
