package history

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Identity identifies an execution among all others, including earlier ones with the same instance id.
type Identity struct {
	Instance  string
	Origin    Position
	Execution uint64
}

// Append appends the encoding of the identity, from which ids are derived, to b.
func (id Identity) Append(b []byte) []byte {
	b = AppendText(b, id.Instance)
	b = binary.BigEndian.AppendUint64(b, id.Origin.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(id.Origin.Time)) //nolint:gosec // the bits, not the number
	return binary.BigEndian.AppendUint64(b, id.Execution)
}

// EffectID identifies the effect of a decision: 128 bits of SHA-256 over everything that distinguishes the decision, in 22 characters
// of base64url. A turn that is decided again in the same way produces the same id; a different decision produces another one.
func EffectID(id Identity, eventID uint64, kind Kind, name string, payload Payload) string {
	b := make([]byte, 0, 512)
	b = id.Append(b)
	b = binary.BigEndian.AppendUint64(b, eventID)
	b = append(b, byte(kind))
	b = AppendText(b, name)
	b = AppendText(b, payload.Type)
	b = append(b, payload.Data...)
	return Digest(b)
}

// ActivityEffect returns the effect id of an activity. It covers everything on which a worker acts (name, queue, attempt, call key and
// payload), so that a task can be compared with the id of its lease.
func ActivityEffect(id Identity, e *ActivityScheduled) string {
	b := make([]byte, 0, 512)
	b = AppendText(b, e.Name)
	b = AppendText(b, e.Queue)
	b = binary.BigEndian.AppendUint32(b, e.Attempt)
	b = AppendText(b, e.First)
	return EffectID(id, e.ID, KindActivityScheduled, string(b), e.Payload)
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
