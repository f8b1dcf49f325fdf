package redisx

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
)

// ErrReply is the error of an unexpected reply: another version of Pawl, or another program, has written to the keys.
var ErrReply = errors.New("unexpected reply from Redis")

// Reply reads the reply of a script, an array. The first mismatch is kept in Err; elements that do not match are read as zero values.
type Reply struct {
	list []any
	err  error
}

// NewReply returns a Reply that reads v.
func NewReply(v any) *Reply {
	r := &Reply{}
	var ok bool
	if r.list, ok = v.([]any); !ok {
		r.err = fmt.Errorf("%w: %T", ErrReply, v)
	}
	return r
}

// Err returns the first mismatch.
func (r *Reply) Err() error { return r.err }

// Len returns the number of elements.
func (r *Reply) Len() int { return len(r.list) }

func (r *Reply) at(i int) any {
	if i < len(r.list) {
		return r.list[i]
	}
	if r.err == nil {
		r.err = fmt.Errorf("%w: %d elements, none at %d", ErrReply, len(r.list), i)
	}
	return nil
}

// Str returns the text at index i; "" for nil.
func (r *Reply) Str(i int) string {
	s, err := Str(r.at(i))
	r.err = cmp.Or(r.err, err)
	return s
}

// Int returns the number at index i, which is a number or decimal text; 0 for nil.
func (r *Reply) Int(i int) int64 {
	n, err := Int(r.at(i))
	r.err = cmp.Or(r.err, err)
	return n
}

// List returns the array at index i.
func (r *Reply) List(i int) []any {
	v := r.at(i)
	l, ok := v.([]any)
	if !ok && v != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %T at %d", ErrReply, v, i)
	}
	return l
}

// Strs returns the array of texts at index i.
func (r *Reply) Strs(i int) []string {
	l := r.List(i)
	out := make([]string, len(l))
	for k, v := range l {
		s, err := Str(v)
		r.err = cmp.Or(r.err, err)
		out[k] = s
	}
	return out
}

// Str converts an element of a reply to text.
func Str(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	default:
		return "", fmt.Errorf("%w: %T where text was expected", ErrReply, v)
	}
}

// Int converts an element of a reply to a number.
func Int(v any) (int64, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case int64:
		return v, nil
	case string:
		if v == "" {
			return 0, nil
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %q where a number was expected", ErrReply, v)
		}
		return n, nil
	default:
		return 0, fmt.Errorf("%w: %T where a number was expected", ErrReply, v)
	}
}
