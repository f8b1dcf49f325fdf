package pawlcodec

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
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

// parseKeys parses keys in the form ID=BASE64, separated by white space. The first is the current one. Lines that begin with # are
// comments.
func parseKeys(text string) ([]Key, error) {
	var all []Key
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for field := range strings.FieldsSeq(line) {
			id, encoded, ok := strings.Cut(field, "=")
			secret, err := base64.StdEncoding.DecodeString(encoded)
			if !ok || err != nil {
				return nil, errors.New("pawlcodec: keys: expected ID=BASE64, with 32 bytes in base64")
			}
			k, err := NewKey(id, secret)
			if err != nil {
				return nil, err
			}
			if _, err := find(all, id); err == nil {
				return nil, fmt.Errorf("pawlcodec: keys: duplicate id: %s", k)
			}
			all = append(all, k)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("pawlcodec: keys: no key given")
	}
	return all, nil
}

func find(all []Key, id string) (Key, error) {
	for _, k := range all {
		if k.id == id {
			return k, nil
		}
	}
	return Key{}, ErrNoKey
}

// fixedKeys is a provider of keys that do not change.
type fixedKeys []Key

func (f fixedKeys) Current() (Key, error)      { return f[0], nil }
func (f fixedKeys) Key(id string) (Key, error) { return find(f, id) }

// Keys returns a provider of keys that do not change. New payloads are encrypted with current.
func Keys(current Key, earlier ...Key) KeyProvider { return append(fixedKeys{current}, earlier...) }

// EnvKeys returns a provider of the keys in an environment variable, in the format of FileKeys. They do not change while the process
// runs.
func EnvKeys(name string) (KeyProvider, error) {
	all, err := parseKeys(os.Getenv(name))
	if err != nil {
		return nil, fmt.Errorf("$%s: %w", name, err)
	}
	return fixedKeys(all), nil
}

// fileCheckInterval is the minimum interval between two checks of the key file.
const fileCheckInterval = time.Second

// fileKeys reads its file again when the file has changed. While the file cannot be read, the previous keys are used.
type fileKeys struct {
	path string

	mu      sync.Mutex
	all     []Key
	err     error // error of the last read
	checked time.Time
	changed time.Time // modification time of the file as last read
}

// FileKeys returns a provider of the keys in a file: ID=BASE64, separated by white space, where BASE64 encodes 32 random bytes. The first
// is the current one. Lines that begin with # are comments. The file is read again within a second of a change.
func FileKeys(path string) (KeyProvider, error) {
	f := &fileKeys{path: path}
	f.read()
	if len(f.all) == 0 {
		return nil, f.err
	}
	return f, nil
}

// read reads the file if it has changed.
func (f *fileKeys) read() {
	if time.Since(f.checked) < fileCheckInterval {
		return
	}
	f.checked = time.Now()
	info, err := os.Stat(f.path)
	if err == nil && info.ModTime().Equal(f.changed) {
		return
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(f.path)
	}
	var all []Key
	if err == nil {
		all, err = parseKeys(string(text))
	}
	if f.err = err; err != nil {
		f.err = fmt.Errorf("%s: %w", f.path, err)
		return
	}
	f.all, f.changed = all, info.ModTime()
}

// Current returns the first key of the file.
func (f *fileKeys) Current() (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read()
	return f.all[0], nil
}

// Key returns a key of the file.
func (f *fileKeys) Key(id string) (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read()
	k, err := find(f.all, id)
	if err != nil {
		return Key{}, cmp.Or(f.err, err)
	}
	return k, nil
}
