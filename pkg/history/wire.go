package history

import (
	"bytes"
	"errors"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/pawlrun/pawl/internal/wire"
)

// codec writes or reads the fields of a msgpack array: each of its methods does either, so that an encoding is described once.
// It keeps the first error. Fields that are zero at the end of an array are not written, and fields behind the end of an array
// are read as zero: that is how fields are added.
type codec struct {
	enc *msgpack.Encoder // writing
	buf bytes.Buffer

	dec  *msgpack.Decoder // reading
	size int              // bytes

	// places counts the elements of the current array: those written, or those left to read. used and end are the number of
	// places and of bytes up to the last one that is not zero.
	places, used, end int
	err               error
}

func newWriter() *codec {
	c := &codec{enc: msgpack.GetEncoder()}
	c.enc.Reset(&c.buf)
	return c
}

// newReader enters the outermost array. free returns its decoder.
func newReader(b []byte) (*codec, error) {
	dec, err := wire.Open(b)
	if err != nil {
		return nil, err
	}
	c := &codec{dec: dec, size: len(b)}
	c.enter()
	return c, nil
}

func (c *codec) free() {
	if c.enc != nil {
		msgpack.PutEncoder(c.enc)
		return
	}
	wire.Close(c.dec, c.size)
}

// bytes returns the array that was written, behind the elements that head writes.
func (c *codec) bytes(headPlaces int, head func()) []byte {
	body := c.buf.Len()
	c.keep(c.enc.EncodeArrayLen(headPlaces + c.used))
	head()
	all := c.buf.Bytes()
	return append(append(make([]byte, 0, len(all)-body+c.end), all[body:]...), all[:c.end]...)
}

func (c *codec) keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// wrote counts a place.
func (c *codec) wrote(err error, zero bool) {
	c.keep(err)
	if c.places++; !zero {
		c.used, c.end = c.places, c.buf.Len()
	}
}

// more reports whether there is a place left to read, and takes it.
func (c *codec) more() bool {
	if c.err != nil || c.places == 0 {
		return false
	}
	c.places--
	return true
}

var (
	errNotArray = errors.New("not an array")
	errRange    = errors.New("number out of range")
)

// enter reads the header of an array.
func (c *codec) enter() {
	n, err := c.dec.DecodeArrayLen()
	if err == nil && n < 0 {
		err = errNotArray
	}
	c.keep(err)
	c.places = max(n, 0)
}

// rest skips the fields that a newer build has added.
func (c *codec) rest() {
	for c.more() {
		c.keep(c.dec.Skip())
	}
}

// array is an array of n elements in one place.
func (c *codec) array(n int, zero bool, fields func()) {
	if c.enc != nil {
		places, used, end := c.places, c.used, c.end
		c.keep(c.enc.EncodeArrayLen(n))
		fields()
		c.places, c.used, c.end = places, used, end
		c.wrote(nil, zero)
		return
	}
	if !c.more() {
		return
	}
	outer := c.places
	c.enter()
	fields()
	c.rest()
	c.places = outer
}

func (c *codec) uint(v *uint64) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeUint(*v), *v == 0)
	} else if c.more() {
		var err error
		*v, err = c.dec.DecodeUint64()
		c.keep(err)
	}
}

// number is a number that must fit into its type.
func number[T ~uint8 | ~uint32](c *codec, v *T, limit uint64) {
	n := uint64(*v)
	c.uint(&n)
	if n > limit {
		c.keep(errRange)
		n = 0
	}
	*v = T(n)
}

func (c *codec) uint32(v *uint32) { number(c, v, math.MaxUint32) }

func (c *codec) int(v *int64) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeInt(*v), *v == 0)
	} else if c.more() {
		var err error
		*v, err = c.dec.DecodeInt64()
		c.keep(err)
	}
}

func (c *codec) str(v *string) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeString(*v), *v == "")
	} else if c.more() {
		var err error
		*v, err = c.dec.DecodeString()
		c.keep(err)
	}
}

func (c *codec) bool(v *bool) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeBool(*v), !*v)
	} else if c.more() {
		var err error
		*v, err = c.dec.DecodeBool()
		c.keep(err)
	}
}

func (c *codec) data(v *[]byte) {
	if c.enc != nil {
		c.wrote(c.enc.EncodeBytes(*v), *v == nil)
	} else if c.more() {
		var err error
		*v, err = c.dec.DecodeBytes()
		c.keep(err)
	}
}

// wireJSON is written for TypeJSON, because every event would repeat it.
const wireJSON = 2

// payload takes two places: type and data.
func (c *codec) payload(p *Payload) {
	switch {
	case c.enc == nil:
		if c.more() {
			p.Type = c.payloadType()
		}
	case p.Type == "":
		c.wrote(c.enc.EncodeNil(), true)
	case p.Type == TypeJSON:
		c.wrote(c.enc.EncodeUint(wireJSON), false)
	default:
		c.wrote(c.enc.EncodeString(p.Type), false)
	}
	c.data(&p.Data)
}

// payloadType reads nil, a number or a string, and nothing else: a decoder of any value would allocate room for as many elements as
// corrupt bytes announce.
func (c *codec) payloadType() string {
	code, err := c.dec.PeekCode()
	c.keep(err)
	switch {
	case c.err != nil:
		return ""
	case code == msgpcode.Nil:
		c.keep(c.dec.DecodeNil())
		return ""
	case msgpcode.IsString(code):
		s, err := c.dec.DecodeString()
		c.keep(err)
		return s
	default:
		n, err := c.dec.DecodeUint64()
		c.keep(err)
		if n == wireJSON {
			return TypeJSON
		}
		return "unknown"
	}
}

func (c *codec) failure(f *Failure) {
	zero := f.Code == "" && f.Message == "" && f.Data.Type == "" && f.Data.Data == nil && !f.Permanent && f.Stack == "" && f.Also == nil
	c.array(7, zero, func() {
		c.str(&f.Code)
		c.str(&f.Message)
		c.payload(&f.Data)
		c.bool(&f.Permanent)
		c.str(&f.Stack)
		c.array(len(f.Also), f.Also == nil, func() {
			for i := range f.Also {
				c.str(&f.Also[i])
			}
			for c.dec != nil && c.err == nil && c.places > 0 {
				var s string
				c.str(&s)
				f.Also = append(f.Also, s)
			}
		})
	})
}
