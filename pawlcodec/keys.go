package pawlcodec

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

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
		if k.ID() == id {
			return k, nil
		}
	}
	return Key{}, ErrNoKey
}

// fixedKeys is a provider of keys that do not change.
type fixedKeys []Key

func (f fixedKeys) Current() (Key, error) { return f[0], nil }

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
