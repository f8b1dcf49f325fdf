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

// Codec writes or reads a message, so that a type names its fields once, in order, for both directions. It keeps the first
// error. Writing changes nothing of what is written: several goroutines may write the same value.
//
// A message is an array of fields. Fields are only added at the end: a reader skips those that it does not know, and those that
// are missing are zero. So a writer may leave out the fields at the end of the outermost array that are zero, behind those that
// are Required.
type Codec struct {
	enc *msgpack.Encoder // writing, to buf
	buf bytes.Buffer

	dec  *msgpack.Decoder // reading
	size int              // bytes of the message

	// fields counts those of the current array: written, or left to read. used and end are the number of fields and of bytes up to
	// the last field that is written in any case.
	fields, used, end int
	err               error
}

// VersionError is a message of a later version than the reader supports.
type VersionError struct{ Version uint64 }

// Error reports the version.
func (e *VersionError) Error() string { return fmt.Sprintf("message of version %d", e.Version) }

// Encode writes a message of version 1, with all fields. The fields must be encodable: Encode panics otherwise.
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

// Decode reads a message of version 1. The error is a *VersionError, one of Check, or another one of the decoder.
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

// writers keeps buffers that are not larger than maxPooled.
var writers = sync.Pool{New: func() any { return new(Codec) }} //nolint:gochecknoglobals // a pool

// NewWriter returns a Codec that writes fields; Written ends it.
func NewWriter() *Codec {
	c, _ := writers.Get().(*Codec)
	c.enc = msgpack.GetEncoder()
	c.enc.Reset(&c.buf)
	return c
}

// Required makes the fields so far be written also if they are zero.
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

// NewReader checks a message and enters its array; Read ends it. The error is one of Check, or that it is no array.
func NewReader(b []byte) (*Codec, error) {
	dec, err := Open(b)
	if err != nil {
		return nil, err
	}
	c := &Codec{dec: dec, size: len(b)}
	c.enter()
	return c, nil
}

// Read skips the fields that are left, and returns the first error. The Codec must not be used afterwards.
func (c *Codec) Read() error {
	c.skip()
	Close(c.dec, c.size)
	c.dec = nil
	return c.err
}

// Reading reports whether the fields are read.
func (c *Codec) Reading() bool { return c.enc == nil }

// Keep keeps an error, if it is the first.
func (c *Codec) Keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Err returns the first error.
func (c *Codec) Err() error { return c.err }

// wrote counts a field.
func (c *Codec) wrote(err error, zero bool) {
	c.Keep(err)
	if c.fields++; !zero {
		c.Required()
	}
}

// More reports whether the array that is read has another field.
func (c *Codec) More() bool { return c.err == nil && c.fields > 0 }

// next takes a field to read, if there is one.
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

// skip skips the fields that a newer build has added.
func (c *Codec) skip() {
	for c.next() {
		c.Keep(c.dec.Skip())
	}
}

// Uint is a field.
func (c *Codec) Uint(v *uint64) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeUint(*v), *v == 0)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeUint64()
		c.Keep(err)
	}
}

// Int is a field.
func (c *Codec) Int(v *int64) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeInt(*v), *v == 0)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeInt64()
		c.Keep(err)
	}
}

// Bool is a field.
func (c *Codec) Bool(v *bool) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeBool(*v), !*v)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeBool()
		c.Keep(err)
	}
}

// String is a field.
func (c *Codec) String(v *string) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeString(*v), *v == "")
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeString()
		c.Keep(err)
	}
}

// Bytes is a field. It is zero if it is nil.
func (c *Codec) Bytes(v *[]byte) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeBytes(*v), *v == nil)
	} else if c.next() {
		var err error
		*v, err = c.dec.DecodeBytes()
		c.Keep(err)
	}
}

// Symbol is a field with a string that is written as nil if it is empty, and as a number if it is the common one. It is read as
// "unknown" if it is another number.
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

// symbol reads nil, a number or a string, and nothing else.
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

// Number is a field of a smaller type.
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

// Count is a field that is never negative: a negative value is written as zero.
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

// Record is an array of fields inside the message, all of which are written. It is zero if all of them are.
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
	err := c.enc.EncodeArrayLen(n) // written behind the fields, and moved in front of them
	b := c.buf.Bytes()[begin:]
	var head [5]byte // the longest
	k := copy(head[:], b[size:])
	copy(b[k:], b[:size])
	copy(b, head[:k])
	c.wrote(err, zero)
}

// List is an array of items, each of which is one field, such as a Record. It is zero if it is nil.
func List[T any](c *Codec, items *[]T, item func(*Codec, *T)) {
	ListOf(c, items, math.MaxInt, item)
}

// ListOf is a List of a bounded number of items: nothing is read of one that has more, and the error names both numbers.
func ListOf[T any](c *Codec, items *[]T, most int, item func(*Codec, *T)) {
	if c.enc == nil {
		if c.next() {
			outer := c.fields
			if c.enter(); c.fields > most {
				c.Keep(fmt.Errorf("a list of %d items, at most %d are allowed", c.fields, most))
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

// Optional is a Record, or nil.
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
