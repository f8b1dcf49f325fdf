package pawl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

var errMalformed = errors.New("the encoder gave malformed msgpack")

// inKeyOrder gives the msgpack value with the entries of every map, at every depth,
// ordered by the bytes of their encoded keys.
func inKeyOrder(value []byte) ([]byte, error) {
	s := sorter{out: make([]byte, 0, len(value))}
	rest, err := s.value(value)
	if err == nil && len(rest) > 0 {
		err = errMalformed
	}
	return s.out, err
}

type sorter struct {
	out []byte
}

// value copies one value to out and gives what follows it.
func (s *sorter) value(in []byte) ([]byte, error) {
	if len(in) == 0 {
		return nil, errMalformed
	}
	switch c := in[0]; {
	case c >= 0x80 && c <= 0x8f:
		return s.entries(in, 1, int(c&0x0f))
	case c == 0xde || c == 0xdf:
		width := 2 << (c - 0xde)
		n, err := bigEndian(in[1:], width)
		if err != nil {
			return nil, err
		}
		return s.entries(in, 1+width, n)
	case c >= 0x90 && c <= 0x9f:
		return s.elements(in, 1, int(c&0x0f))
	case c == 0xdc || c == 0xdd:
		width := 2 << (c - 0xdc)
		n, err := bigEndian(in[1:], width)
		if err != nil {
			return nil, err
		}
		return s.elements(in, 1+width, n)
	default:
		n, err := scalarSize(in)
		if err != nil || n > len(in) {
			return nil, errMalformed
		}
		return s.take(in, n), nil
	}
}

func (s *sorter) take(in []byte, n int) []byte {
	s.out = append(s.out, in[:n]...)
	return in[n:]
}

func (s *sorter) elements(in []byte, head, n int) ([]byte, error) {
	in = s.take(in, head)
	for range n {
		var err error
		if in, err = s.value(in); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (s *sorter) entries(in []byte, head, n int) ([]byte, error) {
	in = s.take(in, head)
	type entry struct{ key, all []byte }
	var entries []entry
	first := len(s.out)
	for range n {
		start := len(s.out)
		rest, err := s.value(in)
		if err != nil {
			return nil, err
		}
		colon := len(s.out)
		if rest, err = s.value(rest); err != nil {
			return nil, err
		}
		in = rest
		all := bytes.Clone(s.out[start:])
		entries = append(entries, entry{key: all[:colon-start], all: all})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	s.out = s.out[:first]
	for _, e := range entries {
		s.out = append(s.out, e.all...)
	}
	return in, nil
}

// scalarSize is the whole size of a value that is neither a map nor an array.
func scalarSize(in []byte) (int, error) {
	c := in[0]
	sized := func(width, extra int) (int, error) {
		n, err := bigEndian(in[1:], width)
		return 1 + width + extra + n, err
	}
	switch {
	case c <= 0x7f, c >= 0xe0, c >= 0xc0 && c <= 0xc3:
		return 1, nil
	case c >= 0xa0 && c <= 0xbf:
		return 1 + int(c&0x1f), nil
	case c >= 0xc4 && c <= 0xc6: // bin
		return sized(1<<(c-0xc4), 0)
	case c >= 0xc7 && c <= 0xc9: // ext: the size does not count the type
		return sized(1<<(c-0xc7), 1)
	case c == 0xca:
		return 5, nil
	case c == 0xcb:
		return 9, nil
	case c >= 0xcc && c <= 0xcf: // unsigned
		return 1 + 1<<(c-0xcc), nil
	case c >= 0xd0 && c <= 0xd3: // signed
		return 1 + 1<<(c-0xd0), nil
	case c >= 0xd4 && c <= 0xd8: // fixext
		return 2 + 1<<(c-0xd4), nil
	default: // 0xd9 to 0xdb: str
		return sized(1<<(c-0xd9), 0)
	}
}

func bigEndian(in []byte, width int) (int, error) {
	if len(in) < width {
		return 0, errMalformed
	}
	switch width {
	case 1:
		return int(in[0]), nil
	case 2:
		return int(binary.BigEndian.Uint16(in)), nil
	default:
		return int(binary.BigEndian.Uint32(in)), nil
	}
}
