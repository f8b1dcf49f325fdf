package store

import (
	"crypto/sha1" //nolint:gosec // Redis scripts have SHA-1 only; nothing here depends on collisions
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/pawlrun/pawl/internal/effectid"
)

// # The proof of a doorbell
//
// Any client on the subjects of the namespace may publish a doorbell, and an owner acts on it before it has read Redis: it takes a
// turn with the completion and releases the ticket of the activity. So a doorbell carries a proof that Redis computed:
//
//	commit, reconcile  lease.k = key(secret of the partition, instance, effect)      stored in Redis only
//	ack                proof = sha1(k + sha1(element)), in the reply                 the element is in the inbox now
//	doorbell           instance, effect, element, proof                              the owner derives k again and compares
//
// The secret is a field of the partition's hash, which no worker may read. The first owner creates it; a rollback that loses it also
// loses every lease that depends on it. The proof covers the time and the body of the element, too, because a commit compares only
// the ids of the elements that it pops. A replayed doorbell proves a completion that was already applied, and is dropped.

// # The seal of an inbox element
//
// Workers push completions into the same inboxes as ingest. So the first line of every element that ingest or a commit creates ends
// with the seal of the partition. Workers cannot read the seal, because they may read neither the partition's hash nor an inbox. An
// element without the seal must be the completion of an outstanding activity; any other is dropped. The seal does not protect against
// replay by a party that can read it: with the operator's credentials, or from a copy of the database.

// Seal returns the suffix of the first line of elements that ingest or a commit creates; "" without a secret.
func (t Tenure) Seal() string {
	if t.Secret == "" {
		return ""
	}
	sum := sha256.Sum256(effectid.AppendText([]byte("seal"), t.Secret))
	return " " + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// leaseKey returns the 96-bit key of an activity's lease.
func (t Tenure) leaseKey(instance, effect string) string {
	b := make([]byte, 0, 256)
	b = effectid.AppendText(b, t.Secret)
	b = effectid.AppendText(b, instance)
	b = append(b, effect...)
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// VerifyProof reports whether the ack script computed the proof: the activity with this effect id has ended, and element is its
// completion. element is nil if it was too large for a doorbell.
func (t Tenure) VerifyProof(instance, effect string, element []byte, proof string) bool {
	inner := sha1.Sum(element) //nolint:gosec // as the import explains
	b := make([]byte, 0, 128)
	b = append(b, t.leaseKey(instance, effect)...)
	b = hex.AppendEncode(b, inner[:])
	outer := sha1.Sum(b) //nolint:gosec // as the import explains
	return proof == hex.EncodeToString(outer[:])
}
