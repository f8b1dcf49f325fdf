package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// Codec writes or reads a message, so that a type names its fields once, in order, for both directions. It keeps the first
// error.
//
// A message is an array: its version, then its fields. Within a version fields are only added at the end: a reader skips those
// that it does not know, and those that are missing are zero.
type Codec struct {
	enc      *msgpack.Encoder // one of the two is set
	dec      *msgpack.Decoder
	counting bool // fields are counted, and neither written nor read
	fields   int  // counted
	left     int  // values left in the array that is read
	err      error
}

// VersionError is a message of a later version than the reader supports.
type VersionError struct{ Version uint64 }

// Error reports the version.
func (e *VersionError) Error() string { return fmt.Sprintf("message of version %d", e.Version) }

// Encode writes a message of version 1. The fields must be encodable: Encode panics otherwise.
func Encode(fields func(*Codec)) []byte {
	var buf bytes.Buffer
	c := &Codec{enc: msgpack.GetEncoder()}
	defer msgpack.PutEncoder(c.enc)
	c.enc.Reset(&buf)
	version := uint64(1)
	c.array(func(c *Codec) { c.Uint(&version); fields(c) })
	if c.err != nil {
		panic("wire: encode: " + c.err.Error())
	}
	return buf.Bytes()
}

// Decode reads a message of version 1. The error is a *VersionError, one of Check, or another one of the decoder.
func Decode(b []byte, fields func(*Codec)) error {
	dec, err := Open(b)
	if err != nil {
		return err
	}
	defer Close(dec, len(b))
	c := &Codec{dec: dec}
	c.left = c.length()
	var version uint64
	c.Uint(&version)
	if c.err == nil && version > 1 {
		return &VersionError{Version: version}
	}
	if c.err == nil && version == 0 {
		c.keep(errors.New("version 0"))
	}
	fields(c)
	c.rest()
	return c.err
}

func (c *Codec) keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// direction is what the next value needs.
type direction uint8

const (
	skip direction = iota
	write
	read
)

func (c *Codec) next() direction {
	switch {
	case c.counting:
		c.fields++
		return skip
	case c.enc != nil:
		return write
	case c.err != nil || c.left == 0: // past the end
		return skip
	default:
		c.left--
		return read
	}
}

// array writes an array of the fields.
func (c *Codec) array(fields func(*Codec)) {
	c.counting, c.fields = true, 0
	fields(c)
	c.counting = false
	c.keep(c.enc.EncodeArrayLen(c.fields))
	fields(c)
}

// length reads the length of an array.
func (c *Codec) length() int {
	n, err := c.dec.DecodeArrayLen()
	if err == nil && n < 0 {
		err = errors.New("nil where an array is expected")
	}
	if err != nil {
		c.keep(err)
		return 0
	}
	return n
}

func (c *Codec) rest() {
	for c.next() == read {
		c.keep(c.dec.Skip())
	}
}

// Uint is a field.
func (c *Codec) Uint(v *uint64) {
	switch c.next() {
	case write:
		c.keep(c.enc.EncodeUint(*v))
	case read:
		var err error
		*v, err = c.dec.DecodeUint64()
		c.keep(err)
	case skip:
	}
}

// Int is a field.
func (c *Codec) Int(v *int64) {
	switch c.next() {
	case write:
		c.keep(c.enc.EncodeInt(*v))
	case read:
		var err error
		*v, err = c.dec.DecodeInt64()
		c.keep(err)
	case skip:
	}
}

// Bool is a field.
func (c *Codec) Bool(v *bool) {
	switch c.next() {
	case write:
		c.keep(c.enc.EncodeBool(*v))
	case read:
		var err error
		*v, err = c.dec.DecodeBool()
		c.keep(err)
	case skip:
	}
}

// String is a field.
func (c *Codec) String(v *string) {
	switch c.next() {
	case write:
		c.keep(c.enc.EncodeString(*v))
	case read:
		var err error
		*v, err = c.dec.DecodeString()
		c.keep(err)
	case skip:
	}
}

// Bytes is a field.
func (c *Codec) Bytes(v *[]byte) {
	switch c.next() {
	case write:
		c.keep(c.enc.EncodeBytes(*v))
	case read:
		var err error
		*v, err = c.dec.DecodeBytes()
		c.keep(err)
	case skip:
	}
}

// Number is a field of a smaller type.
func Number[T ~uint8 | ~uint32](c *Codec, v *T) {
	n := uint64(*v)
	c.Uint(&n)
	if uint64(T(n)) != n {
		c.keep(fmt.Errorf("number %d out of range", n))
		return
	}
	*v = T(n)
}

// Count is a field that is never negative: a negative value is written as zero.
func (c *Codec) Count(v *int) {
	n := uint64(max(*v, 0))
	c.Uint(&n)
	if n > math.MaxInt32 {
		c.keep(fmt.Errorf("number %d out of range", n))
		return
	}
	*v = int(n)
}

// Record is an array of fields inside the message.
func (c *Codec) Record(fields func(*Codec)) {
	switch c.next() {
	case write:
		c.array(fields)
	case read:
		outer := c.left
		c.left = c.length()
		fields(c)
		c.rest()
		c.left = outer
	case skip:
	}
}

// List is an array of items, each of which is one field, such as a Record.
func List[T any](c *Codec, items *[]T, item func(*Codec, *T)) {
	switch c.next() {
	case write:
		c.keep(c.enc.EncodeArrayLen(len(*items)))
		for i := range *items {
			item(c, &(*items)[i])
		}
	case read:
		outer := c.left
		for c.left = c.length(); c.left > 0 && c.err == nil; {
			var v T
			item(c, &v)
			*items = append(*items, v)
		}
		c.left = outer
	case skip:
	}
}

// Optional is a Record, or nil.
func Optional[T any](c *Codec, v **T, fields func(*Codec, *T)) {
	if c.counting || c.enc != nil && *v != nil {
		c.Record(func(c *Codec) { fields(c, *v) })
		return
	}
	if c.enc != nil {
		c.keep(c.enc.EncodeNil())
		return
	}
	if c.err != nil || c.left == 0 {
		return
	}
	code, err := c.dec.PeekCode()
	c.keep(err)
	if err == nil && code == 0xc0 { // nil
		c.left--
		c.keep(c.dec.DecodeNil())
		return
	}
	*v = new(T)
	c.Record(func(c *Codec) { fields(c, *v) })
}
