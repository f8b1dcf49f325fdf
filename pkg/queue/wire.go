package queue

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	door "github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// wire walks a message in either direction, so that what is written and what is
// read can not differ: a type has one function that names its fields in order. It
// keeps the first error.
//
// A message is an array: its version, then its fields. Within a version fields are
// only ever added at the end: a reader skips those it does not know, and those it
// does not find are zero.
type wire struct {
	enc  *msgpack.Encoder // one of the two is set
	dec  *msgpack.Decoder
	left int // values left in the array that dec is in
	err  error
}

// encode writes a message of version 1. What is written by Pawl never fails to
// encode: the types of a message are closed, and a buffer takes everything.
func encode(fields int, body func(*wire)) []byte {
	var buf bytes.Buffer
	w := &wire{enc: msgpack.GetEncoder()}
	defer msgpack.PutEncoder(w.enc)
	w.enc.Reset(&buf)
	w.keep(w.enc.EncodeArrayLen(1 + fields))
	w.keep(w.enc.EncodeUint(1))
	body(w)
	if w.err != nil {
		panic("queue: encode: " + w.err.Error())
	}
	return buf.Bytes()
}

// decode reads a message of version 1. A later one is a *NewerError; anything else
// that does not fit is ErrMalformed.
func decode(what string, b []byte, body func(*wire)) error {
	dec, err := door.Open(b)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
	}
	defer door.Close(dec, len(b))
	w := &wire{dec: dec}
	w.left = w.length()
	var version uint64
	w.uint(&version)
	if w.err == nil && version > 1 {
		return &NewerError{What: what, Version: version, Max: 1}
	}
	if w.err == nil && version == 0 {
		w.keep(errors.New("version 0"))
	}
	body(w)
	w.rest()
	if w.err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, what, w.err)
	}
	return nil
}

func (w *wire) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

// more counts one value of the array that is read; past its end there is none.
func (w *wire) more() bool {
	if w.err != nil || w.left == 0 {
		return false
	}
	w.left--
	return true
}

// length reads the length of an array.
func (w *wire) length() int {
	n, err := w.dec.DecodeArrayLen()
	if err == nil && n < 0 {
		err = errors.New("nil where an array is expected")
	}
	if err != nil {
		w.keep(err)
		return 0
	}
	return n
}

func (w *wire) rest() {
	for w.more() {
		w.keep(w.dec.Skip())
	}
}

func (w *wire) uint(v *uint64) {
	if w.enc != nil {
		w.keep(w.enc.EncodeUint(*v))
	} else if w.more() {
		var err error
		*v, err = w.dec.DecodeUint64()
		w.keep(err)
	}
}

func (w *wire) int(v *int64) {
	if w.enc != nil {
		w.keep(w.enc.EncodeInt(*v))
	} else if w.more() {
		var err error
		*v, err = w.dec.DecodeInt64()
		w.keep(err)
	}
}

func (w *wire) bool(v *bool) {
	if w.enc != nil {
		w.keep(w.enc.EncodeBool(*v))
	} else if w.more() {
		var err error
		*v, err = w.dec.DecodeBool()
		w.keep(err)
	}
}

func (w *wire) str(v *string) {
	if w.enc != nil {
		w.keep(w.enc.EncodeString(*v))
	} else if w.more() {
		var err error
		*v, err = w.dec.DecodeString()
		w.keep(err)
	}
}

func (w *wire) bytes(v *[]byte) {
	if w.enc != nil {
		w.keep(w.enc.EncodeBytes(*v))
	} else if w.more() {
		var err error
		*v, err = w.dec.DecodeBytes()
		w.keep(err)
	}
}

// number is uint for a smaller type.
func number[T ~uint8 | ~uint32](w *wire, v *T) {
	n := uint64(*v)
	w.uint(&n)
	if uint64(T(n)) != n {
		w.keep(fmt.Errorf("number %d out of range", n))
		return
	}
	*v = T(n)
}

// count is uint for an int that is never negative.
func (w *wire) count(v *int) {
	n := uint64(max(*v, 0))
	w.uint(&n)
	if n > math.MaxInt32 {
		w.keep(fmt.Errorf("number %d out of range", n))
		return
	}
	*v = int(n)
}

// record is an array of its own inside the message.
func (w *wire) record(fields int, body func(*wire)) {
	if w.enc != nil {
		w.keep(w.enc.EncodeArrayLen(fields))
		body(w)
	} else if w.more() {
		outer := w.left
		w.left = w.length()
		body(w)
		w.rest()
		w.left = outer
	}
}

// list is an array of records, or of plain values.
func list[T any](w *wire, items *[]T, each func(*wire, *T)) {
	if w.enc != nil {
		w.keep(w.enc.EncodeArrayLen(len(*items)))
		for i := range *items {
			each(w, &(*items)[i])
		}
		return
	}
	if !w.more() {
		return
	}
	outer := w.left
	n := w.length()
	for w.left = n; w.left > 0 && w.err == nil; {
		var item T
		each(w, &item)
		*items = append(*items, item)
	}
	w.left = outer
}

// optional is an array of the fields, or nil.
func optional[T any](w *wire, v **T, fields int, body func(*wire, *T)) {
	if w.enc != nil {
		if *v == nil {
			w.keep(w.enc.EncodeNil())
			return
		}
		w.record(fields, func(w *wire) { body(w, *v) })
		return
	}
	if w.err != nil || w.left == 0 {
		return
	}
	code, err := w.dec.PeekCode()
	w.keep(err)
	if err == nil && code == 0xc0 { // nil
		w.left--
		w.keep(w.dec.DecodeNil())
		return
	}
	*v = new(T)
	w.record(fields, func(w *wire) { body(w, *v) })
}

func (w *wire) position(p *history.Position) { w.uint(&p.Seq); w.int(&p.Time) }

func (w *wire) payload(p *history.Payload) { w.str(&p.Type); w.bytes(&p.Data) }

const failureFields = 7 // a payload is two

func wireFailure(w *wire, f *history.Failure) {
	w.str(&f.Code)
	w.str(&f.Message)
	w.payload(&f.Data)
	w.bool(&f.Permanent)
	w.str(&f.Stack)
	list(w, &f.Also, (*wire).str)
}
