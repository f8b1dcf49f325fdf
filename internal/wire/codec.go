package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Codec writes or reads a message, so that a type lists its fields once, in order, for both directions. It keeps the first
// error. Writing does not modify the values that are written: several goroutines may write the same value.
//
// A message is an array of fields. New fields are only ever appended: a reader skips fields that it does not know, and takes
// missing ones as zero. A writer may therefore omit trailing zero fields of the outermost array, unless they are Required.
type Codec struct {
	enc *msgpack.Encoder // used for writing, to buf
	buf bytes.Buffer

	dec  *msgpack.Decoder // used for reading
	size int              // size of the message in bytes

	// fields is the number of fields of the current array: written so far, or left to read. used and end are the number of fields
	// and of bytes up to the last field that must be written.
	fields, used, end int
	err               error
}

// VersionError is the error of a message of a later version than the reader supports.
type VersionError struct{ Version uint64 }

// Error reports the version.
func (e *VersionError) Error() string { return fmt.Sprintf("message of version %d", e.Version) }

// Encode writes a message of version 1, with all fields. It panics if a field cannot be encoded.
func Encode(fields func(*Codec)) []byte {
	c := NewWriter()
	version := uint64(1)
	c.Uint(&version)
	fields(c)
	c.Required()
	b, err := c.Written()
	if err != nil {
		panic("wire: encode: " + err.Error())
	}
	return b
}

// Decode reads a message of version 1. The error is a *VersionError, an error of Check, or an error of the msgpack decoder.
func Decode(b []byte, fields func(*Codec)) error {
	c, err := NewReader(b)
	if err != nil {
		return err
	}
	var version uint64
	c.Uint(&version)
	if c.err == nil && version > 1 {
		c.Keep(&VersionError{Version: version})
	}
	if c.err == nil && version == 0 {
		c.Keep(errors.New("version 0"))
	}
	fields(c)
	return c.Read()
}

// writers pools Codecs whose buffers are at most maxPooled bytes.
var writers = sync.Pool{New: func() any { return new(Codec) }} //nolint:gochecknoglobals // a pool

// NewWriter returns a Codec that writes fields; Written finishes the message.
func NewWriter() *Codec {
	c, _ := writers.Get().(*Codec)
	c.enc = msgpack.GetEncoder()
	c.enc.Reset(&c.buf)
	return c
}

// Required marks the fields written so far as required: they are written even if they are zero.
func (c *Codec) Required() { c.used, c.end = c.fields, c.buf.Len() }

// Written returns the message, or the first error. The Codec must not be used afterwards.
func (c *Codec) Written() ([]byte, error) {
	body := c.buf.Len()
	c.Keep(c.enc.EncodeArrayLen(c.used))
	all := c.buf.Bytes()
	b := append(append(make([]byte, 0, len(all)-body+c.end), all[body:]...), all[:c.end]...)
	err := c.err
	msgpack.PutEncoder(c.enc)
	if c.buf.Cap() <= maxPooled {
		c.buf.Reset()
		c.enc, c.fields, c.used, c.end, c.err = nil, 0, 0, 0, nil
		writers.Put(c)
	}
	return b, err
}

// NewReader checks a message and enters its array; Read finishes reading. The error is one of Check, or reports that the message is
// not an array.
func NewReader(b []byte) (*Codec, error) {
	dec, err := Open(b)
	if err != nil {
		return nil, err
	}
	c := &Codec{dec: dec, size: len(b)}
	c.enter()
	return c, nil
}

// Read skips the remaining fields and returns the first error. The Codec must not be used afterwards.
func (c *Codec) Read() error {
	c.skip()
	Close(c.dec, c.size)
	c.dec = nil
	return c.err
}

// Reading reports whether the Codec reads, rather than writes.
func (c *Codec) Reading() bool { return c.enc == nil }

// Keep records err if it is the first error.
func (c *Codec) Keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Err returns the first error.
func (c *Codec) Err() error { return c.err }

// wrote counts a written field, and records the error of writing it.
func (c *Codec) wrote(err error, zero bool) {
	c.Keep(err)
	if c.fields++; !zero {
		c.Required()
	}
}

// More reports whether the array that is being read has another field.
func (c *Codec) More() bool { return c.err == nil && c.fields > 0 }

// next consumes a field of the array that is being read; it reports false if there is none.
func (c *Codec) next() bool {
	if !c.More() {
		return false
	}
	c.fields--
	return true
}

var errNotArray = errors.New("not an array")

// enter reads the header of an array.
func (c *Codec) enter() {
	n, err := c.dec.DecodeArrayLen()
	if err == nil && n < 0 {
		err = errNotArray
	}
	c.Keep(err)
	c.fields = max(n, 0)
}

// skip skips the fields that a newer build has appended.
func (c *Codec) skip() {
	for c.next() {
		c.Keep(c.dec.Skip())
	}
}

// Uint writes or reads a field.
func (c *Codec) Uint(v *uint64) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeUint(*v), *v == 0)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeUint64()
		c.Keep(err)
	}
}

// Int writes or reads a field.
func (c *Codec) Int(v *int64) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeInt(*v), *v == 0)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeInt64()
		c.Keep(err)
	}
}

// Bool writes or reads a field.
func (c *Codec) Bool(v *bool) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeBool(*v), !*v)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeBool()
		c.Keep(err)
	}
}

// String writes or reads a field.
func (c *Codec) String(v *string) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeString(*v), *v == "")
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeString()
		c.Keep(err)
	}
}

// Bytes writes or reads a field. Only nil counts as zero.
func (c *Codec) Bytes(v *[]byte) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeBytes(*v), *v == nil)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeBytes()
		c.Keep(err)
	}
}

// Symbol writes or reads a string field in a short form: nil if it is empty, and number if it equals common. Any other number
// is read as "unknown".
func (c *Codec) Symbol(v *string, common string, number uint64) {
	switch {
	case c.enc == nil:
		if c.next() {
			*v = c.symbol(common, number)
		}
	case *v == "":
		c.wrote(c.enc.EncodeNil(), true)
	case *v == common:
		c.wrote(c.enc.EncodeUint(number), false)
	default:
		c.wrote(c.enc.EncodeString(*v), false)
	}
}

// symbol reads nil, a number or a string; anything else is an error.
func (c *Codec) symbol(common string, number uint64) string {
	code, err := c.dec.PeekCode()
	c.Keep(err)
	switch {
	case c.err != nil:
		return ""
	case code == msgpcode.Nil:
		c.Keep(c.dec.DecodeNil())
		return ""
	case msgpcode.IsString(code):
		s, err := c.dec.DecodeString()
		c.Keep(err)
		return s
	default:
		n, err := c.dec.DecodeUint64()
		c.Keep(err)
		if n == number {
			return common
		}
		return "unknown"
	}
}

// Number writes or reads a field of a smaller integer type. A value out of range is an error.
func Number[T ~uint8 | ~uint32](c *Codec, v *T) {
	n := uint64(*v)
	c.Uint(&n)
	switch {
	case uint64(T(n)) != n:
		c.Keep(fmt.Errorf("number %d out of range", n))
	case c.enc == nil:
		*v = T(n)
	}
}

// Count writes or reads a field that is never negative: a negative value is written as zero.
func (c *Codec) Count(v *int) {
	n := uint64(max(*v, 0))
	c.Uint(&n)
	switch {
	case n > math.MaxInt32:
		c.Keep(fmt.Errorf("number %d out of range", n))
	case c.enc == nil:
		*v = int(n)
	}
}

// Record writes or reads a nested array of fields, all of which are written. It counts as zero if all of them are zero.
func (c *Codec) Record(fields func(*Codec)) {
	if c.enc == nil {
		if c.next() {
			outer := c.fields
			c.enter()
			fields(c)
			c.skip()
			c.fields = outer
		}
		return
	}
	outer, used, end, begin := c.fields, c.used, c.end, c.buf.Len()
	c.fields, c.used = 0, 0
	fields(c)
	n, zero, size := c.fields, c.used == 0, c.buf.Len()-begin
	c.fields, c.used, c.end = outer, used, end
	err := c.enc.EncodeArrayLen(n) // written after the fields, then moved in front of them
	b := c.buf.Bytes()[begin:]
	var head [5]byte // the longest array header
	k := copy(head[:], b[size:])
	copy(b[k:], b[:size])
	copy(b, head[:k])
	c.wrote(err, zero)
}

// List writes or reads an array of items, each of which is one field, such as a Record. Only nil counts as zero.
func List[T any](c *Codec, items *[]T, item func(*Codec, *T)) {
	ListOf(c, items, math.MaxInt, item)
}

// ListOf is List with a bound on the number of items. No item of a longer list is read; the error states both numbers.
func ListOf[T any](c *Codec, items *[]T, limit int, item func(*Codec, *T)) {
	if c.enc == nil {
		if c.next() {
			outer := c.fields
			if c.enter(); c.fields > limit {
				c.Keep(fmt.Errorf("a list of %d items, at most %d are allowed", c.fields, limit))
			}
			for c.More() {
				var v T
				item(c, &v)
				*items = append(*items, v)
			}
			c.fields = outer
		}
		return
	}
	fields, used, end := c.fields, c.used, c.end
	c.Keep(c.enc.EncodeArrayLen(len(*items)))
	for i := range *items {
		item(c, &(*items)[i])
	}
	c.fields, c.used, c.end = fields, used, end
	c.wrote(nil, *items == nil)
}

// Optional writes or reads a Record, or nil.
func Optional[T any](c *Codec, v **T, fields func(*Codec, *T)) {
	switch {
	case c.enc != nil && *v == nil:
		c.wrote(c.enc.EncodeNil(), true)
		return
	case c.enc == nil:
		if !c.More() {
			return
		}
		code, err := c.dec.PeekCode()
		c.Keep(err)
		if err == nil && code == msgpcode.Nil {
			c.fields--
			c.Keep(c.dec.DecodeNil())
			return
		}
		*v = new(T)
	}
	c.Record(func(c *Codec) { fields(c, *v) })
	if c.enc != nil {
		c.Required()
	}
}
