// Package wire encodes and decodes the msgpack messages of Pawl, and checks every message before it is decoded.
//
// A msgpack decoder trusts the lengths that it reads: a message of sixteen bytes that announces a string of four gigabytes, or an
// array of as many elements, makes it allocate them, and a message that nests a million levels deep overflows the stack, which
// kills the process. Check compares every length with the bytes that are left, and bounds the depth. It does not recurse, and
// does not allocate in proportion to the announced lengths.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// MaxDepth is the maximum nesting depth of arrays and maps. Pawl's own messages nest less than ten levels deep.
const MaxDepth = 100

// maxPooled is the size in bytes of the largest message whose buffer is pooled: a pooled buffer never shrinks.
const maxPooled = 64 << 10

// Errors of Check. Each is wrapped with the offset in the message.
var (
	ErrTruncated = errors.New("msgpack ends within a value")
	ErrTooDeep   = fmt.Errorf("msgpack nests more than %d deep", MaxDepth)
	ErrTrailing  = errors.New("bytes follow the msgpack value")
	ErrCode      = errors.New("no msgpack value begins with this byte")
)

// Open checks a message and returns a decoder for it, which Close releases. The error is one of Check.
func Open(b []byte) (*msgpack.Decoder, error) {
	if err := Check(b); err != nil {
		return nil, err
	}
	d := msgpack.GetDecoder()
	d.Reset(bytes.NewReader(b))
	return d, nil
}

// Close releases the decoder of a message of size bytes; nil is accepted.
func Close(d *msgpack.Decoder, size int) {
	if d != nil && size <= maxPooled {
		msgpack.PutDecoder(d)
	}
}

// Check returns an error unless b is exactly one well-formed msgpack value that nests at most MaxDepth levels deep. Its time is
// proportional to the number of values in b. It does not check whether strings are valid UTF-8.
func Check(b []byte) error {
	var open [MaxDepth]uint64 // number of values left in each open array or map
	depth, at := 0, 0
	for {
		size, values, err := head(b[at:])
		if err == nil && size > uint64(len(b)-at) {
			err = ErrTruncated
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		at += int(size) //nolint:gosec // at most len(b)
		switch {
		case values > uint64(len(b)-at): //nolint:gosec // at is at most len(b), and every value takes at least a byte
			return fmt.Errorf("byte %d: %w", at, ErrTruncated)
		case values > 0 && depth == MaxDepth:
			return fmt.Errorf("byte %d: %w", at, ErrTooDeep)
		case values > 0:
			open[depth] = values
			depth++
			continue
		}
		for depth > 0 {
			if open[depth-1]--; open[depth-1] > 0 {
				break
			}
			depth--
		}
		if depth == 0 {
			if at < len(b) {
				return fmt.Errorf("byte %d: %w", at, ErrTrailing)
			}
			return nil
		}
	}
}

// head returns the size in bytes of the first value of b without the values that it contains, and the number of those.
func head(b []byte) (size, values uint64, err error) {
	if len(b) == 0 {
		return 0, 0, ErrTruncated
	}
	c := b[0]
	switch {
	case c <= 0x7f, c >= 0xe0: // small integer
		return 1, 0, nil
	case c <= 0x8f: // small map
		return 1, 2 * uint64(c&0x0f), nil
	case c <= 0x9f: // small array
		return 1, uint64(c & 0x0f), nil
	case c <= 0xbf: // short string
		return 1 + uint64(c&0x1f), 0, nil
	}
	f := forms[c-0xc0]
	if f == (form{}) {
		return 0, 0, ErrCode
	}
	n, ok := number(b[1:], f.length)
	if !ok {
		return 0, 0, ErrTruncated
	}
	return 1 + uint64(f.length) + uint64(f.fixed) + n*uint64(f.bytes), n * uint64(f.values), nil
}

// form is the layout of a value after its first byte: the size of its length, its fixed size, and the bytes or values per unit of length.
type form struct{ length, fixed, bytes, values uint8 }

var forms = [0xe0 - 0xc0]form{
	0x00: {bytes: 1}, 0x02: {bytes: 1}, 0x03: {bytes: 1}, // nil, false, true: without a length
	0x04: {length: 1, bytes: 1}, 0x05: {length: 2, bytes: 1}, 0x06: {length: 4, bytes: 1}, // bytes
	0x07: {length: 1, fixed: 1, bytes: 1}, 0x08: {length: 2, fixed: 1, bytes: 1}, 0x09: {length: 4, fixed: 1, bytes: 1}, // extension
	0x0a: {fixed: 4}, 0x0b: {fixed: 8}, // float
	0x0c: {fixed: 1}, 0x0d: {fixed: 2}, 0x0e: {fixed: 4}, 0x0f: {fixed: 8}, // unsigned
	0x10: {fixed: 1}, 0x11: {fixed: 2}, 0x12: {fixed: 4}, 0x13: {fixed: 8}, // signed
	0x14: {fixed: 2}, 0x15: {fixed: 3}, 0x16: {fixed: 5}, 0x17: {fixed: 9}, 0x18: {fixed: 17}, // extension of 1, 2, 4, 8, 16 bytes
	0x19: {length: 1, bytes: 1}, 0x1a: {length: 2, bytes: 1}, 0x1b: {length: 4, bytes: 1}, // string
	0x1c: {length: 2, values: 1}, 0x1d: {length: 4, values: 1}, // array
	0x1e: {length: 2, values: 2}, 0x1f: {length: 4, values: 2}, // map
}

// number reads a big-endian length of size bytes; it is zero if size is 0.
func number(b []byte, size uint8) (uint64, bool) {
	if int(size) > len(b) {
		return 0, false
	}
	switch size {
	case 1:
		return uint64(b[0]), true
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), true
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), true
	default:
		return 0, true
	}
}
