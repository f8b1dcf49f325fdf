package history

import (
	"bytes"
	"errors"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	door "github.com/pawlrun/pawl/internal/wire"
)

// wireJSON is written for TypeJSON, because every event would repeat it.
const wireJSON = 2

// writer appends msgpack values and keeps the first error.
type writer struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
	err error
}

func newWriter() *writer {
	w := &writer{enc: msgpack.GetEncoder()}
	w.enc.Reset(&w.buf)
	return w
}

func (w *writer) free() { msgpack.PutEncoder(w.enc) }

func (w *writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}
func (w *writer) array(n int)   { w.keep(w.enc.EncodeArrayLen(n)) }
func (w *writer) uint(v uint64) { w.keep(w.enc.EncodeUint(v)) }
func (w *writer) int(v int64)   { w.keep(w.enc.EncodeInt(v)) }
func (w *writer) str(s string)  { w.keep(w.enc.EncodeString(s)) }
func (w *writer) bool(v bool)   { w.keep(w.enc.EncodeBool(v)) }

// payload takes two places: type and data.
func (w *writer) payload(p Payload) {
	switch p.Type {
	case "":
		w.keep(w.enc.EncodeNil())
	case TypeJSON:
		w.uint(wireJSON)
	default:
		w.str(p.Type)
	}
	w.keep(w.enc.EncodeBytes(p.Data))
}

func (w *writer) failure(f Failure) {
	w.array(7)
	w.str(f.Code)
	w.str(f.Message)
	w.payload(f.Data)
	w.bool(f.Permanent)
	w.str(f.Stack)
	w.array(len(f.Also))
	for _, c := range f.Also {
		w.str(c)
	}
}

// reader takes values off a msgpack array and keeps the first error. Past the end
// of the array every value is zero: that is how fields are added.
type reader struct {
	dec  *msgpack.Decoder
	size int // bytes
	left int
	err  error
}

// newReader reads the outermost array. free gives its decoder back.
func newReader(b []byte) (*reader, error) {
	dec, err := door.Open(b)
	if err != nil {
		return nil, err
	}
	r := &reader{dec: dec, size: len(b)}
	r.array()
	return r, nil
}

func (r *reader) free() { door.Close(r.dec, r.size) }

func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) more() bool {
	if r.err != nil || r.left == 0 {
		return false
	}
	r.left--
	return true
}

var errNotArray = errors.New("not an array")

// array enters an array of the outermost level.
func (r *reader) array() {
	n, err := r.dec.DecodeArrayLen()
	if err == nil && n < 0 {
		err = errNotArray
	}
	r.keep(err)
	r.left = max(n, 0)
}

// rest skips what a newer build has added.
func (r *reader) rest() {
	for r.more() {
		r.keep(r.dec.Skip())
	}
}

func (r *reader) uint() (v uint64) {
	if r.more() {
		var err error
		v, err = r.dec.DecodeUint64()
		r.keep(err)
	}
	return v
}

var errRange = errors.New("number out of range")

// upTo reads a number that must not be greater than most.
func (r *reader) upTo(most uint64) uint64 {
	v := r.uint()
	if v > most {
		r.keep(errRange)
		return 0
	}
	return v
}

func (r *reader) uint32() uint32 { return uint32(r.upTo(math.MaxUint32)) } //nolint:gosec // just bounded
func (r *reader) uint8() uint8   { return uint8(r.upTo(math.MaxUint8)) }   //nolint:gosec // just bounded

func (r *reader) int() (v int64) {
	if r.more() {
		var err error
		v, err = r.dec.DecodeInt64()
		r.keep(err)
	}
	return v
}

func (r *reader) str() (s string) {
	if r.more() {
		var err error
		s, err = r.dec.DecodeString()
		r.keep(err)
	}
	return s
}

func (r *reader) bool() (v bool) {
	if r.more() {
		var err error
		v, err = r.dec.DecodeBool()
		r.keep(err)
	}
	return v
}

func (r *reader) payload() (p Payload) {
	if r.more() {
		p.Type = r.payloadType()
	}
	p.Data = r.bytes()
	return p
}

// payloadType reads nil, a number or a string, and nothing else: a decoder of
// everything would make room for as many elements as corrupt bytes say there are.
func (r *reader) payloadType() string {
	c, err := r.dec.PeekCode()
	r.keep(err)
	switch {
	case r.err != nil:
		return ""
	case c == msgpcode.Nil:
		r.keep(r.dec.DecodeNil())
		return ""
	case msgpcode.IsString(c):
		s, err := r.dec.DecodeString()
		r.keep(err)
		return s
	default:
		n, err := r.dec.DecodeUint64()
		r.keep(err)
		return wireType(n)
	}
}

func wireType(n uint64) string {
	if n == wireJSON {
		return TypeJSON
	}
	return "unknown"
}

func (r *reader) failure() (f Failure) {
	if !r.more() {
		return f
	}
	outer := r.left
	r.array()
	f = Failure{Code: r.str(), Message: r.str(), Data: r.payload(), Permanent: r.bool(), Stack: r.str()}
	if r.more() {
		n, err := r.dec.DecodeArrayLen()
		r.keep(err)
		for range n {
			if r.err != nil {
				break
			}
			s, err := r.dec.DecodeString()
			r.keep(err)
			f.Also = append(f.Also, s)
		}
	}
	r.rest()
	r.left = outer
	return f
}
