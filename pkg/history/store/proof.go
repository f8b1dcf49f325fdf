package store

import (
	"crypto/sha1" //nolint:gosec // what Redis has in a script; nothing here depends on collisions
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/pawlrun/pawl/pkg/history"
)

// # What a doorbell proves
//
// Anybody on the namespace's subjects may publish a doorbell, and an owner acts on one before it has asked Redis: it turns the
// completion and takes the activity's ticket out of its gate. So a doorbell carries a proof that Redis has made:
//
//	commit, look   lease.k = key(secret of the partition, instance, effect)      Redis only
//	ack            proof = sha1(k + sha1(element)), in the answer                the element is in the inbox now
//	doorbell       instance, effect, element, proof                              the owner derives k again and compares
//
// The secret is in the partition's hash, which no worker may read. It is made by the first owner; a rollback that
// forgets it forgets every lease that depends on it. The proof covers the time and the body of the element too: a commit compares
// only the ids of what it pops. A doorbell that is sent again proves what has been turned already, and is dropped for that.

// # What an inbox may hold
//
// Workers push their completions into the inboxes that ingest fills. So the first line of every element that ingest or a commit
// makes ends with the seal of the partition, which workers cannot read: neither the partition's hash nor an inbox. An element without
// it is the end of an activity that is outstanding, or it is dropped. Against a seal that is replayed nothing else helps:
// the operator's credentials, and a copy of the database, can read it.

// Seal is what the first line of an element ends with that ingest or a commit has made.
// A Tenure without a secret has none.
func (t Tenure) Seal() string {
	if t.Secret == "" {
		return ""
	}
	sum := sha256.Sum256(history.AppendText([]byte("seal"), t.Secret))
	return " " + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// leaseKey is the key of an activity's lease: 96 bits.
func (t Tenure) leaseKey(instance, effect string) string {
	b := make([]byte, 0, 256)
	b = history.AppendText(b, t.Secret)
	b = history.AppendText(b, instance)
	b = append(b, effect...)
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Proves reports whether the ack script has made this proof: that the activity of this effect id has ended, and the element is its
// completion. An element that is too large for a doorbell is nil.
func (t Tenure) VerifyProof(instance, effect string, element []byte, proof string) bool {
	inner := sha1.Sum(element) //nolint:gosec // see the import
	b := make([]byte, 0, 128)
	b = append(b, t.leaseKey(instance, effect)...)
	b = hex.AppendEncode(b, inner[:])
	outer := sha1.Sum(b) //nolint:gosec // see the import
	return proof == hex.EncodeToString(outer[:])
}
