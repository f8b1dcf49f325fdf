package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Encode returns the JSON of the value that ptr points to. It takes a pointer so that methods with pointer receivers are called. The
// error is an *Error, or one returned by a method of the author's type.
func (t *Type) Encode(ptr any) ([]byte, error) {
	var out sink
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ptr); err != nil {
		return nil, t.explain(err, ptr)
	}
	data := bytes.TrimSuffix(out, []byte("\n"))
	if err := t.checkBytes(data); err != nil {
		return nil, err
	}
	w := walker{root: t, all: replacesText(data)}
	if w.all || t.holds != 0 {
		if err := w.value(reflect.ValueOf(ptr).Elem(), false); err != nil {
			return nil, t.own(err)
		}
	}
	return data, nil
}

// sink collects what is written to it.
type sink []byte

func (s *sink) Write(b []byte) (int, error) {
	*s = append(*s, b...)
	return len(b), nil
}

// checkBytes rejects bytes that no decoder should receive.
func (t *Type) checkBytes(data []byte) error {
	if !utf8.Valid(data) {
		return &Error{Type: t.typ, Reason: "the payload is not UTF-8; send bytes as a []byte"}
	}
	if t.deep && len(data) > 2*MaxDepth && depth(data) > MaxDepth {
		return &Error{Type: t.typ, Reason: fmt.Sprintf("the payload nests more than %d levels deep; send it flat", MaxDepth)}
	}
	return nil
}

// depth returns how deeply the arrays and objects of a JSON text nest.
func depth(data []byte) int {
	level, deepest, text := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// replacesText reports whether the JSON may contain a replacement character where the value has bytes that are not UTF-8.
func replacesText(data []byte) bool {
	return bytes.Contains(data, []byte(`\ufffd`)) || bytes.Contains(data, []byte("\ufffd"))
}

// explain adds the path of its cause in the value to an error of encoding/json.
func (t *Type) explain(err error, ptr any) error {
	value, badValue := errors.AsType[*json.UnsupportedValueError](err)
	_, badType := errors.AsType[*json.UnsupportedTypeError](err)
	switch {
	case badValue && strings.HasPrefix(value.Str, "encountered a cycle"):
		return &Error{Type: t.typ, Reason: "the value refers to itself (" + value.Str + "); refer by an id"}
	case badValue, badType:
		w := walker{root: t, all: true}
		if found := w.value(reflect.ValueOf(ptr).Elem(), false); found != nil {
			return t.own(found)
		}
	}
	return &Error{Type: t.typ, Reason: err.Error(), cause: err}
}

// own sets the type of an error to this type, whichever type inside it caused the error.
func (t *Type) own(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Type = t.typ
		return e
	}
	return &Error{Type: t.typ, Reason: err.Error(), cause: err}
}

// Decode reads JSON into the value that ptr points to. After an error the value is undefined.
func (t *Type) Decode(data []byte, ptr any) error {
	if err := t.checkBytes(data); err != nil {
		return err
	}
	if t.holds&holdsAny != 0 {
		return t.decodeAny(data, ptr)
	}
	err := json.Unmarshal(data, ptr)
	if err == nil && t.holds&holdsTime != 0 {
		err = t.settle(reflect.ValueOf(ptr).Elem())
	}
	return err
}

// decodeAny decodes numbers as json.Number, so that settle sees all their digits.
func (t *Type) decodeAny(data []byte, ptr any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(ptr); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the value")
	}
	if err := t.settle(reflect.ValueOf(ptr).Elem()); err != nil {
		return t.own(err)
	}
	return nil
}
