// Package sealing seals and opens payloads, and the payloads of events. Package pawlcodec, which is its public part, describes the format.
package sealing

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/pkg/history"
)

// Options are the codec settings of a fleet. All its processes and clients need the same settings.
type Options struct {
	Compress bool        // compress payloads with zstd
	Keys     KeyProvider // encrypt payloads with these keys; nil means no encryption
	Store    bool        // keep payloads above StoreAbove in the object store of the fleet
}

// Codec seals and opens payloads. It is safe for concurrent use. A nil Codec seals nothing, and opens payloads that are not encrypted.
type Codec struct {
	compress bool
	store    bool
	keys     KeyProvider
	last     atomic.Pointer[Key] // the last current key, used while the provider fails
}

const (
	version        = 1
	flagCompressed = 1
	flagEncrypted  = 2
	flagStored     = 4 // the body is in the object store

	saltBytes   = 24
	minCompress = 256 // shorter payloads are not compressed, in bytes
	window      = 512 << 10

	// maxOpened is the length of a payload of the maximum size (MaxInline) with its type and what a failure adds to it. maxStored is the
	// same for a payload in the object store. No compressed payload may decompress to more, and a longer payload is not compressed.
	maxOpened = MaxInline + 32<<10 + 64
	maxStored = MaxStored + 32<<10 + 64

	firstRoom = 64 << 10 // first buffer for decompressing an object
)

// New returns a Codec. It returns the error of the provider if that has no current key.
func New(o Options) (*Codec, error) {
	c := &Codec{compress: o.Compress, store: o.Store, keys: o.Keys}
	if o.Keys != nil {
		k, err := o.Keys.Current()
		if err == nil && k.id == "" {
			err = ErrNoKey
		}
		if err != nil {
			return nil, fmt.Errorf("pawlcodec: the current key: %w", err)
		}
		c.last.Store(&k)
	}
	return c, nil
}

// The zstd coders have no state between calls. They are created on first use, because they are large.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder { //nolint:gochecknoglobals // made once
		return must(zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true)))
	})
	decoder = sync.OnceValue(func() *zstd.Decoder { //nolint:gochecknoglobals // made once
		return must(zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxOpened)))
	})
	storeDecoder = sync.OnceValue(func() *zstd.Decoder { //nolint:gochecknoglobals // made once
		return must(zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxStored), zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)))
	})
)

// must panics on an error of constant options.
func must[T any](v T, err error) T {
	if err != nil {
		panic("pawlcodec: " + err.Error())
	}
	return v
}

// current returns the key for new payloads, or the last one while the provider fails.
func (c *Codec) current() Key {
	k, err := c.keys.Current()
	if err != nil || k.id == "" {
		return *c.last.Load()
	}
	c.last.Store(&k)
	return k
}

// Seal returns the sealed payload. place identifies the decision that the payload is part of; if it is nil, the payload belongs to no
// decision and is sealed differently each time. An empty payload, and one that is already sealed, are returned unchanged.
func (c *Codec) Seal(place []byte, p history.Payload) history.Payload {
	if c == nil || p.Type == "" || p.Type == history.TypeSealed || !c.compress && c.keys == nil {
		return p
	}
	flags := byte(0)
	body := effectid.AppendText(make([]byte, 0, len(p.Type)+len(p.Data)+binary.MaxVarintLen16), p.Type)
	body = append(body, p.Data...)
	if c.compress && len(body) >= minCompress && (len(body) <= maxOpened || c.store && len(body) <= maxStored) {
		if packed := encoder().EncodeAll(body, nil); len(packed) < len(body) {
			body, flags = packed, flagCompressed
		}
	}
	if c.keys == nil {
		return plain(flags, body)
	}
	k := c.current()
	head := make([]byte, 0, 3+len(k.id)+checkBytes+saltBytes+len(body)+gcmTag)
	head = append(head, version, flags|flagEncrypted, byte(len(k.id))) //nolint:gosec // at most maxKeyID
	head = append(head, k.id...)
	head = append(head, k.check...)
	head = append(head, k.salt(place, head, body)...)
	return history.Payload{Type: history.TypeSealed, Data: k.cipher(head[len(head)-saltBytes:]).Seal(head, nonce(), body, head)}
}

// plain returns a sealed payload that is not encrypted.
func plain(flags byte, body []byte) history.Payload {
	return history.Payload{Type: history.TypeSealed, Data: append([]byte{version, flags}, body...)}
}

const (
	gcmTag     = 16
	maxSealing = 3 + maxKeyID + checkBytes + saltBytes + gcmTag // maximum overhead of sealing
)

// nonce is constant, because each payload has its own key.
func nonce() []byte { return make([]byte, 12) }

// salt returns a random salt if there is no place. Otherwise it derives the salt from the place and from exactly the bytes that are
// encrypted and authenticated, after compression. The same salt, and so the same key and nonce, therefore only occurs with the same
// bytes.
func (k Key) salt(place, head, body []byte) []byte {
	if place == nil {
		b := make([]byte, saltBytes)
		_, _ = rand.Read(b) // never an error
		return b
	}
	mac := hmac.New(sha256.New, k.salts)
	_, _ = mac.Write(effectid.AppendText(nil, string(place)))
	_, _ = mac.Write(effectid.AppendText(nil, string(head)))
	_, _ = mac.Write(body)
	return mac.Sum(nil)[:saltBytes]
}

// cipher returns the cipher of one payload.
func (k Key) cipher(salt []byte) cipher.AEAD {
	block, err := aes.NewCipher(k.derive("pawl payload 1", salt))
	if err != nil { // 32 bytes are always a valid key
		panic("pawlcodec: " + err.Error())
	}
	aead, err := cipher.NewGCM(block)
	if err != nil { // AES always has blocks of 16 bytes
		panic("pawlcodec: " + err.Error())
	}
	return aead
}

// Open returns the payload as it was before Seal. A payload that is not sealed is returned unchanged. The error is a *KeyError or an
// *ObjectError, or matches ErrDamaged.
func (c *Codec) Open(p history.Payload) (history.Payload, error) { return c.OpenWith(nil, p) }

// OpenWith is Open with a function that reads objects of the store.
func (c *Codec) OpenWith(load Load, p history.Payload) (history.Payload, error) {
	return c.open(load, maxStored, p)
}

// OpenSmall is OpenWith for lists of payloads: it does not read an object that is larger than a payload may be without the store.
func (c *Codec) OpenSmall(load Load, p history.Payload) (history.Payload, error) {
	return c.open(load, maxOpened, p)
}

// open is OpenWith with the maximum size in memory of a payload in the store.
func (c *Codec) open(load Load, maxSize int, p history.Payload) (history.Payload, error) {
	if p.Type != history.TypeSealed {
		return p, nil
	}
	flags, keyID, check, salt, body := parts(p.Data)
	if body == nil {
		return p, ErrDamaged
	}
	head, opens := p.Data[:len(p.Data)-len(body)], 0 // opens is set for an object
	var err error
	if flags&flagStored != 0 {
		r, ok := parseReference(body)
		if !ok {
			return p, ErrDamaged
		}
		if body, err = loaded(load, r, maxSize); err != nil {
			return p, err
		}
		head, opens = append([]byte{version, flags &^ flagStored}, head[2:]...), r.opens
	}
	if flags&flagEncrypted != 0 {
		k, err := c.key(keyID, check)
		if err != nil {
			return p, err
		}
		if body, err = k.cipher(salt).Open(nil, nonce(), body, head); err != nil {
			return p, ErrDamaged
		}
	}
	if flags&flagCompressed != 0 {
		if body, err = unpack(body, opens); err != nil {
			return p, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	n, size := binary.Uvarint(body)
	if flags&flagStored != 0 && len(body) > opens || size <= 0 || n > uint64(len(body)-size) { //nolint:gosec // not negative
		return p, ErrDamaged
	}
	body = body[size:]
	return history.Payload{Type: string(body[:n]), Data: body[n:len(body):len(body)]}, nil
}

// unpack decompresses a body. For an object, it uses at most the memory that its reference announces. The reference is not trusted, so
// the buffer starts small and grows with the data that is actually there.
func unpack(body []byte, opens int) ([]byte, error) {
	if opens == 0 {
		return decoder().DecodeAll(body, nil)
	}
	for room := firstRoom + 16*len(body); ; room *= 8 {
		b, err := storeDecoder().DecodeAll(body, make([]byte, 0, min(room, opens)))
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) && room < opens {
			continue
		}
		if err == nil && len(b) < cap(b)/2 {
			b = bytes.Clone(b)
		}
		return b, err
	}
}

// CanOpen returns the *KeyError that Open would return, without opening the payload. For a payload in the object store, it returns an
// *ObjectError if the Codec has no store.
func (c *Codec) CanOpen(p history.Payload) error {
	if p.Type != history.TypeSealed {
		return nil
	}
	flags, keyID, check, _, body := parts(p.Data)
	if r, ok := parseReference(body); ok && flags&flagStored != 0 && !c.Stores() {
		return &ObjectError{Name: r.name, cause: ErrNotLoaded}
	}
	if flags&flagEncrypted == 0 {
		return nil
	}
	_, err := c.key(keyID, check)
	return err
}

// key returns the key of a payload.
func (c *Codec) key(id string, check []byte) (Key, error) {
	if c == nil || c.keys == nil {
		return Key{}, &KeyError{ID: id, cause: ErrNoKey}
	}
	k, err := c.keys.Key(id)
	if err == nil && !bytes.Equal(k.check, check) {
		err = fmt.Errorf("%w: this process has another key with this id", ErrNoKey)
	}
	if err != nil {
		return Key{}, &KeyError{ID: id, cause: err}
	}
	return k, nil
}

func bodyOf(b []byte) []byte {
	_, _, _, _, body := parts(b) //nolint:dogsled // one part of five is needed
	return body
}

// parts splits sealed bytes into their parts. body is nil if the bytes are not sealed.
func parts(b []byte) (flags byte, keyID string, check, salt, body []byte) {
	if len(b) < 2 || b[0] != version || b[1]&^(flagCompressed|flagEncrypted|flagStored) != 0 {
		return 0, "", nil, nil, nil
	}
	flags, body = b[1], b[2:]
	if flags&flagEncrypted == 0 {
		return flags, "", nil, nil, body
	}
	if len(body) == 0 || len(body) < 1+int(body[0])+checkBytes+saltBytes {
		return 0, "", nil, nil, nil
	}
	n := 1 + int(body[0])
	if checkID(string(body[1:n])) != nil {
		return 0, "", nil, nil, nil
	}
	keyID, check, salt = string(body[1:n]), body[n:n+checkBytes], body[n+checkBytes:n+checkBytes+saltBytes]
	return flags, keyID, check, salt, body[n+checkBytes+saltBytes:]
}

// Describe returns a description of a sealed payload for users, and "" for any other payload.
func Describe(p history.Payload) string {
	if p.Type != history.TypeSealed {
		return ""
	}
	flags, keyID, _, _, body := parts(p.Data)
	switch {
	case body == nil:
		return "sealed, and damaged"
	case flags&flagStored != 0:
		r, _ := parseReference(body)
		return fmt.Sprintf("in the object store, %d bytes", r.opens)
	case flags&flagEncrypted != 0:
		return fmt.Sprintf("encrypted with key %q", keyID)
	default:
		return "compressed"
	}
}
