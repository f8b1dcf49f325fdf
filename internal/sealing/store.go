package sealing

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/pkg/history"
)

// Sizes of payloads, in bytes.
const (
	StoreAbove = 64 << 10  // larger payloads are kept in the object store, if the fleet has one
	MaxInline  = 512 << 10 // maximum without the object store
	MaxStored  = 64 << 20  // maximum with the object store
)

// The roles that write objects. Each has its own subjects, so that no other role can take the name of an object before its writer.
const (
	ByClient       = "to"
	ByOrchestrator = "own"
	ByWorker       = "run"
)

// Object is the body of a payload that is kept in the object store. Histories contain a reference to it.
type Object struct {
	Name   string   // the writer's role, a dot, and hexadecimal digits
	Owners []string // instances that may hold the reference; when all of them are removed, the object may be removed, too
	Body   []byte
}

// Load reads an object of the given size from the store. opens is the maximum size of its payload in memory. An error is reported as an
// *ObjectError.
type Load func(name string, size, opens int) ([]byte, error)

// ObjectError is the error of a payload whose object cannot be read at present or in this process.
type ObjectError struct {
	Name  string // name of the object
	cause error
}

// Error returns the name of the object and the cause.
func (e *ObjectError) Error() string {
	return fmt.Sprintf("pawlcodec: object %s of a payload: %v", e.Name, e.cause)
}

// Unwrap returns the cause.
func (e *ObjectError) Unwrap() error { return e.cause }

// ErrNotLoaded is the cause of an *ObjectError in a caller that does not read payloads of the store.
var ErrNotLoaded = errors.New("payloads of the object store are not read here")

// Unavailable reports whether an error of Open is temporary: the key is missing or the object cannot be read. Otherwise the payload is
// damaged.
func Unavailable(err error) bool {
	return err != nil && (errors.As(err, new(*KeyError)) || errors.As(err, new(*ObjectError)))
}

// Stores reports whether large payloads are kept in the object store.
func (c *Codec) Stores() bool { return c != nil && c.store }

// MaxPayload returns the maximum size of a payload of an author, in bytes.
func (c *Codec) MaxPayload() int {
	if c.Stores() {
		return MaxStored
	}
	return MaxInline
}

// reference replaces the body of a sealed payload that is in the object store.
type reference struct {
	name  string
	size  int // size of the body
	opens int // maximum size of the body after decryption and decompression
	sum   [sha256.Size]byte
}

const nameBytes = 16

// SealStored is Seal for a payload that belongs to no decision. If the payload is large and there is a store, it returns the reference
// and the object; the caller sets the Owners of the object. The size of a payload that is already sealed is that of its sealed bytes.
func (c *Codec) SealStored(by string, p history.Payload) (history.Payload, *Object) {
	return c.sealStored(by, nil, nil, p)
}

func (c *Codec) sealStored(by string, place []byte, owners []string, p history.Payload) (history.Payload, *Object) {
	opens, known := len(p.Data), p.Type != history.TypeSealed
	kind := p.Type
	p = c.Seal(place, p)
	if !c.Stores() || len(p.Data) <= StoreAbove && opens <= MaxInline || p.Type == history.TypeSealed && isStored(p) {
		return p, nil
	}
	if p.Type != history.TypeSealed {
		p = plain(0, append(effectid.AppendText(nil, p.Type), p.Data...))
	}
	body := bodyOf(p.Data)
	if body == nil { // damaged; returned unchanged
		return p, nil
	}
	r := reference{name: by + "." + name(place, owners, body), size: len(body), opens: maxStored, sum: sha256.Sum256(body)}
	if known {
		r.opens = len(effectid.AppendText(nil, kind)) + opens
	}
	head := append([]byte{version, p.Data[1] | flagStored}, p.Data[2:len(p.Data)-len(body)]...)
	return history.Payload{Type: history.TypeSealed, Data: r.append(head)}, &Object{Name: r.name, Owners: owners, Body: body}
}

// name returns a random name if there is no place. Otherwise it derives the name from the place, the owners and the body: a turn that is
// decided again has the same objects, but different ones if its owners differ. Otherwise an existing object would keep its first owners,
// who may not be the ones that now refer to it.
func name(place []byte, owners []string, body []byte) string {
	b := make([]byte, nameBytes)
	if place == nil {
		_, _ = rand.Read(b) // never an error
		return hex.EncodeToString(b)
	}
	h := sha256.New()
	_, _ = h.Write(effectid.AppendText(nil, string(place)))
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(owners))))
	for _, owner := range owners {
		_, _ = h.Write(effectid.AppendText(nil, owner))
	}
	_, _ = h.Write(body)
	return hex.EncodeToString(h.Sum(nil)[:nameBytes])
}

func (r reference) append(b []byte) []byte {
	b = effectid.AppendText(b, r.name)
	b = binary.AppendUvarint(b, uint64(r.size))  //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(r.opens)) //nolint:gosec // not negative
	return append(b, r.sum[:]...)
}

func parseReference(b []byte) (r reference, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) { //nolint:gosec // not negative
		return r, false
	}
	r.name, b = string(b[used:used+int(n)]), b[used+int(n):] //nolint:gosec // at most the length of b
	for _, of := range []*int{&r.size, &r.opens} {
		size, used := binary.Uvarint(b)
		if used <= 0 || size > maxStored+gcmTag {
			return r, false
		}
		*of, b = int(size), b[used:]
	}
	if len(b) != sha256.Size || !validName(r.name) {
		return r, false
	}
	copy(r.sum[:], b)
	return r, true
}

// validName ensures that a reference made by another role cannot address another subject.
func validName(s string) bool {
	digits := len(s) - 2*nameBytes
	if digits < 1 {
		return false
	}
	switch s[:digits] {
	case ByClient + ".", ByOrchestrator + ".", ByWorker + ".":
		_, err := hex.DecodeString(s[digits:])
		return err == nil
	default:
		return false
	}
}

func isStored(p history.Payload) bool { return len(p.Data) > 1 && p.Data[1]&flagStored != 0 }

// referenceOf returns the reference of a payload, if it has one.
func referenceOf(p history.Payload) (r reference, ok bool) {
	if p.Type != history.TypeSealed || !isStored(p) {
		return r, false
	}
	body := bodyOf(p.Data)
	return parseReference(body)
}

// Name returns the name of the object that a payload refers to, or "" if it refers to none.
func Name(p history.Payload) string {
	r, _ := referenceOf(p)
	return r.name
}

// OpenedSize returns the size in memory of the opened object that a payload refers to, or 0 if it refers to none.
func OpenedSize(p history.Payload) int {
	r, _ := referenceOf(p)
	return r.opens
}

// loaded returns the body that a reference refers to.
func loaded(load Load, r reference, maxSize int) ([]byte, error) {
	if load == nil || r.opens > maxSize {
		return nil, &ObjectError{Name: r.name, cause: ErrNotLoaded}
	}
	body, err := load(r.name, r.size, r.opens)
	if err != nil {
		return nil, &ObjectError{Name: r.name, cause: err}
	}
	if len(body) != r.size || sha256.Sum256(body) != r.sum {
		return nil, ErrDamaged
	}
	return body, nil
}

// SamePayload reports whether a recorded reference is the one that the payload of a decision at that place would have, without reading
// the object. The owners are those of SealEvent.
func (c *Codec) SamePayload(place []byte, met history.Event, owners []string, recorded, p history.Payload) bool {
	if Name(recorded) == "" || !c.Stores() {
		return false
	}
	made, _ := c.sealStored(ByOrchestrator, place, append(receivers(met), owners...), p)
	return string(made.Data) == string(recorded.Data)
}
