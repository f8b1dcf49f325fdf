package sealing

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// Key is an encryption key with its id. The zero value is no key.
type Key struct {
	id     string
	secret []byte
	salts  []byte // derives salts
	check  []byte // distinguishes different keys with the same id
}

const (
	keyBytes   = 32
	maxKeyID   = 64
	checkBytes = 4
)

// NewKey returns a key. The id has 1 to 64 letters, digits, dots, hyphens and underscores; the secret is 32 random bytes.
func NewKey(id string, secret []byte) (Key, error) {
	if err := checkID(id); err != nil {
		return Key{}, err
	}
	if len(secret) != keyBytes {
		return Key{}, fmt.Errorf("pawlcodec: a key needs a secret of %d bytes (got %d)", keyBytes, len(secret))
	}
	k := Key{id: id, secret: append([]byte(nil), secret...)}
	k.salts, k.check = k.derive("pawl salt 1", nil), k.derive("pawl check 1", nil)[:checkBytes]
	return k, nil
}

func checkID(id string) error {
	if id == "" || len(id) > maxKeyID {
		return fmt.Errorf("pawlcodec: a key needs an id of 1 to %d bytes (got %d)", maxKeyID, len(id))
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r) {
			return fmt.Errorf("pawlcodec: the id of a key has the character %q", r)
		}
	}
	return nil
}

// ID returns the id of the key.
func (k Key) ID() string { return k.id }

// String returns the id, so that the secret is never logged.
func (k Key) String() string { return "key " + k.id }

// GoString returns the same as String.
func (k Key) GoString() string { return k.String() }

func (k Key) derive(purpose string, from []byte) []byte {
	mac := hmac.New(sha256.New, k.secret)
	_, _ = mac.Write([]byte(purpose)) // never an error
	_, _ = mac.Write(from)
	return mac.Sum(nil)
}

// KeyProvider provides the keys of a fleet. It is called concurrently for every payload and must not block: a provider that uses a key
// service must cache the keys.
type KeyProvider interface {
	// Current returns the key for encrypting new payloads.
	Current() (Key, error)
	// Key returns the key with the id, or ErrNoKey if there is none.
	Key(id string) (Key, error)
}

// Errors of keys and payloads.
var (
	ErrNoKey   = errors.New("no such key")
	ErrDamaged = errors.New("pawlcodec: the payload was changed since it was sealed")
)

// KeyError is the error of a payload whose key is not available to this process.
type KeyError struct {
	ID    string // id of the key
	cause error
}

// Error returns the id of the key and the cause.
func (e *KeyError) Error() string {
	return fmt.Sprintf("pawlcodec: the payload is encrypted with key %q: %v", e.ID, e.cause)
}

// Unwrap returns the cause: ErrNoKey, or an error of the KeyProvider.
func (e *KeyError) Unwrap() error { return e.cause }
