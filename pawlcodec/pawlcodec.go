package pawlcodec

import "github.com/pawlrun/pawl/internal/sealing"

// Sizes of payloads in bytes.
const (
	StoreAbove = 64 << 10  // larger payloads are kept in the object store, if the fleet has one
	MaxInline  = 512 << 10 // maximum without the object store
	MaxStored  = 64 << 20  // maximum with the object store
)

// Errors of keys and payloads.
var (
	ErrNoKey   = sealing.ErrNoKey   // this process does not have the key of a payload
	ErrDamaged = sealing.ErrDamaged // the payload was changed since it was sealed
)

// Options are the codec settings of a fleet. All its processes and clients need the same settings.
type Options struct {
	Compress bool        // compress payloads with zstd
	Keys     KeyProvider // encrypt payloads with these keys; nil means no encryption
	Store    bool        // keep payloads above StoreAbove in the object store of the fleet
}

// Codec seals and opens payloads: set it as the Codec of orchestrators, workers and clients. It is safe for concurrent use.
type Codec sealing.Codec

// New returns a Codec. It returns the error of the provider if that has no current key.
func New(o Options) (*Codec, error) {
	s := sealing.Options{Compress: o.Compress, Store: o.Store}
	if o.Keys != nil {
		s.Keys = provider{o.Keys}
	}
	c, err := sealing.New(s)
	return (*Codec)(c), err
}

// Key is an encryption key with its id. The zero value is no key.
type Key sealing.Key

// NewKey returns a key. The id has 1 to 64 letters, digits, dots, hyphens and underscores; the secret is 32 random bytes.
func NewKey(id string, secret []byte) (Key, error) {
	k, err := sealing.NewKey(id, secret)
	return Key(k), err
}

// ID returns the id of the key.
func (k Key) ID() string { return sealing.Key(k).ID() }

// String returns the id, so that the secret is never logged.
func (k Key) String() string { return sealing.Key(k).String() }

// GoString returns the same as String.
func (k Key) GoString() string { return k.String() }

// KeyProvider provides the keys of a fleet. It is called concurrently for every payload and must not block: a provider that uses a key
// service must cache the keys.
type KeyProvider interface {
	// Current returns the key for encrypting new payloads.
	Current() (Key, error)
	// Key returns the key with the id, or ErrNoKey if there is none.
	Key(id string) (Key, error)
}

// provider is a KeyProvider as the implementation calls it.
type provider struct{ keys KeyProvider }

func (p provider) Current() (sealing.Key, error) {
	k, err := p.keys.Current()
	return sealing.Key(k), err
}

func (p provider) Key(id string) (sealing.Key, error) {
	k, err := p.keys.Key(id)
	return sealing.Key(k), err
}
