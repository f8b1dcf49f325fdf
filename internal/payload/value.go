package payload

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// walker searches a value that has been encoded, and so does not refer to itself, for parts that would be different after decoding. It
// visits the parts whose types must be checked, or everything.
type walker struct {
	root *Type // type of the payload
	all  bool  // whether text and numbers outside an any are checked, too
	deep int   // current depth
}

func (w walker) refusef(format string, args ...any) error {
	return &Error{Type: w.root.typ, Reason: fmt.Sprintf(format, args...)}
}

// in adds a step to the path of an error.
func in(step string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Path = step + e.Path
	}
	return err
}

// value checks a value. generic is set inside an any, which is decoded without its type.
func (w walker) value(v reflect.Value, generic bool) error {
	n := w.root.nodes[v.Type()]
	if !generic && !w.all && n.holds == 0 {
		return nil
	}
	if w.deep++; w.deep > 4*MaxDepth { // pointers are not a level of JSON
		return w.refusef("the value nests too deep, or refers to itself; send it flat")
	}
	if n.opaque {
		return w.opaque(v, generic)
	}
	switch v.Kind() {
	case reflect.Interface:
		return w.dynamic(v)
	case reflect.Pointer:
		return w.pointer(v, generic)
	case reflect.Slice, reflect.Array:
		return w.elements(v, generic)
	case reflect.Map:
		return w.entries(v, generic)
	case reflect.Struct:
		for _, f := range n.fields {
			if f.omitted && v.Field(f.index).IsZero() {
				continue
			}
			if err := w.value(v.Field(f.index), generic); err != nil {
				return in("."+v.Type().Field(f.index).Name, err)
			}
		}
		return nil
	default: // TypeOf has rejected all other kinds
		return w.scalar(v, generic)
	}
}

func (w walker) scalar(v reflect.Value, generic bool) error {
	const lost = "the integer %v in an any comes back as a float64, which holds integers up to 2^53; use a typed field or a text"
	switch v.Kind() {
	case reflect.String:
		if v.Type() == numberType && generic {
			_, err := number(json.Number(v.String()))
			return err
		}
		return w.text(v.String(), v.Type())
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return w.refusef("JSON has no %g; use a pointer, or a text", f)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if generic && (v.Int() > maxInteger || v.Int() < -maxInteger) {
			return w.refusef(lost, v.Int())
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if generic && v.Uint() > maxInteger {
			return w.refusef(lost, v.Uint())
		}
	default: // a bool
	}
	return nil
}

func (w walker) text(s string, t reflect.Type) error {
	if !utf8.ValidString(s) {
		return w.refusef("the text %.40q is not UTF-8 and would be changed; use a []byte", s)
	}
	if t == numberType && s == "" {
		return w.refusef("an empty json.Number is encoded as 0; use a pointer")
	}
	return nil
}

// opaque checks a value that encodes itself.
func (w walker) opaque(v reflect.Value, generic bool) error {
	if v.Type() == timeType {
		if t, ok := reflect.TypeAssert[time.Time](v); ok {
			if _, offset := t.Zone(); offset%60 != 0 {
				return w.refusef("the time %s has a zone with an offset in seconds, which JSON does not have; use t.UTC()", t)
			}
		}
		return nil
	}
	if !generic && !w.all {
		return nil
	}
	t := v.Type()
	if v.CanAddr() {
		v = v.Addr() // so that methods with pointer receivers are called
	}
	if m, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok && !v.Type().Implements(jsonMarshals) {
		text, err := m.MarshalText()
		if err == nil && !utf8.Valid(text) {
			return w.refusef("the text %.40q of %s is not UTF-8 and would be changed", text, t)
		}
		return err
	}
	if !generic {
		return nil
	}
	data, err := json.Marshal(v.Interface())
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var got any
	if err = dec.Decode(&got); err == nil {
		_, err = settleAny(got)
	}
	return err
}

// dynamic checks the contents of an any.
func (w walker) dynamic(v reflect.Value) error {
	if v.IsNil() {
		return nil
	}
	v = v.Elem()
	t := v.Type()
	switch {
	case t == listType || t == objectType:
		return w.value(v, true)
	case t.PkgPath() == "" && t.Name() != "": // predeclared
		return w.scalarOf(v)
	}
	inner, err := typeOf(t, false)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			return in(e.Path, w.refusef("in an any: %s", e.Reason))
		}
		return err
	}
	return walker{root: inner, all: w.all, deep: w.deep}.value(v, true)
}

// scalarOf checks a value of a predeclared type in an any.
func (w walker) scalarOf(v reflect.Value) error {
	if k := v.Kind(); k == reflect.Complex64 || k == reflect.Complex128 {
		return w.refusef("in an any: a %s cannot be encoded", k)
	}
	return w.scalar(v, true)
}

func (w walker) pointer(v reflect.Value, generic bool) error {
	if v.IsNil() {
		return nil
	}
	e := v.Elem()
	if !generic && nilable(e.Type()) && isNull(e) {
		return w.refusef("a pointer to a nil %s comes back as a nil pointer; use one or the other", e.Type())
	}
	return w.value(e, generic)
}

// isNull reports whether a value is encoded as null, unless it has its own encoding methods.
func isNull(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || isNull(v.Elem())
	case reflect.Slice:
		return v.IsNil() || v.Type() == rawType && string(v.Bytes()) == "null"
	case reflect.Map:
		return v.IsNil()
	default:
		return false
	}
}

func (w walker) elements(v reflect.Value, generic bool) error {
	e := v.Type().Elem()
	n := w.root.nodes[e]
	if e.Kind() == reflect.Uint8 && !n.opaque || !generic && !w.all && n.holds == 0 {
		return nil
	}
	for i := range v.Len() {
		if err := w.value(v.Index(i), generic); err != nil {
			return in("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

func (w walker) entries(v reflect.Value, generic bool) error {
	if generic && v.Type().Key().Kind() != reflect.String {
		return w.refusef("a %s in an any comes back with text as its keys; use text as keys, or a typed field", v.Type())
	}
	for key, e := range v.Seq2() {
		err := w.key(key)
		if err == nil {
			err = w.value(e, generic)
		}
		if err != nil {
			return in(stepTo(key), err)
		}
	}
	return nil
}

// key checks the text of a map key.
func (w walker) key(key reflect.Value) error {
	switch {
	case !w.all:
		return nil
	case key.Kind() == reflect.String:
		return w.text(key.String(), key.Type())
	case key.Type().Implements(textMarshals):
		return w.opaque(key, false)
	default:
		return nil
	}
}

// stepTo returns the path step to an entry of a map.
func stepTo(key reflect.Value) string {
	if key.Kind() == reflect.String {
		return fmt.Sprintf("[%.40q]", key.String())
	}
	return fmt.Sprintf("[%.40s]", fmt.Sprint(key))
}

// maxInteger is the largest n for which a float64 represents all integers up to n.
const maxInteger = 1 << 53
