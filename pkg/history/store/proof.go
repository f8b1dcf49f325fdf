package store

import (
	"crypto/sha1" //nolint:gosec // Redis scripts have SHA-1 only; nothing here depends on collisions
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/pawlrun/pawl/pkg/history"
)

// # The proof of a doorbell
//
// Any client on the subjects of the namespace may publish a doorbell, and an owner acts on one before it has read Redis: it takes
// a turn with the completion and releases the activity's ticket. So a doorbell carries a proof that Redis has made:
//
//	commit, reconcile  lease.k = key(secret of the partition, instance, effect)      Redis only
//	ack                proof = sha1(k + sha1(element)), in the reply                 the element is in the inbox now
//	doorbell           instance, effect, element, proof                              the owner derives k again and compares
//
// The secret is in the partition's hash, which no worker may read. The first owner makes it; a rollback that loses it loses every
// lease that depends on it. The proof covers the time and the body of the element, too: a commit compares only the ids of what it
// pops. A repeated doorbell proves what was applied before, and is dropped.

// # The seal of an inbox element
//
// Workers push their completions into the inboxes that ingest fills. So the first line of every element that ingest or a commit
// makes ends with the seal of the partition, which workers cannot read: neither the partition's hash nor an inbox. An element
// without it is the completion of an outstanding activity, or it is dropped. Nothing protects from a seal that is replayed: the
// operator's credentials, and a copy of the database, can read it.

// Seal returns the end of the first line of an element that ingest or a commit has made; "" without a secret.
func (t Tenure) Seal() string {
	if t.Secret == "" {
		return ""
	}
	sum := sha256.Sum256(history.AppendText([]byte("seal"), t.Secret))
	return " " + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// leaseKey returns the key of an activity's lease: 96 bits.
func (t Tenure) leaseKey(instance, effect string) string {
	b := make([]byte, 0, 256)
	b = history.AppendText(b, t.Secret)
	b = history.AppendText(b, instance)
	b = append(b, effect...)
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// VerifyProof reports whether the ack script made this proof: that the activity of this effect id has ended, and element is its
// completion; nil if it was too large for a doorbell.
func (t Tenure) VerifyProof(instance, effect string, element []byte, proof string) bool {
	inner := sha1.Sum(element) //nolint:gosec // see the import
	b := make([]byte, 0, 128)
	b = append(b, t.leaseKey(instance, effect)...)
	b = hex.AppendEncode(b, inner[:])
	outer := sha1.Sum(b) //nolint:gosec // see the import
	return proof == hex.EncodeToString(outer[:])
}
