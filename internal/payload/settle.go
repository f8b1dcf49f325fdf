package payload

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// settle finishes a decoded value: numbers in an any become float64, and times lose the zone of this machine. The value is addressable.
func (t *Type) settle(v reflect.Value) error {
	n := t.nodes[v.Type()]
	if n.holds&(holdsAny|holdsTime) == 0 {
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		settled, err := settleAny(v.Interface())
		if err == nil && settled != nil {
			v.Set(reflect.ValueOf(settled))
		}
		return err
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return t.settle(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := t.settle(v.Index(i)); err != nil {
				return in("["+strconv.Itoa(i)+"]", err)
			}
		}
	case reflect.Map:
		return t.settleMap(v)
	case reflect.Struct:
		if v.Type() == timeType {
			if at, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
				*at = withoutZone(*at)
			}
			return nil
		}
		for _, f := range n.fields {
			if err := t.settle(v.Field(f.index)); err != nil {
				return in("."+v.Type().Field(f.index).Name, err)
			}
		}
	default: // contains nothing to settle
	}
	return nil
}

// settleMap settles the entries of a map, which are not addressable.
func (t *Type) settleMap(v reflect.Value) error {
	e := reflect.New(v.Type().Elem()).Elem()
	for key, value := range v.Seq2() {
		e.Set(value)
		if err := t.settle(e); err != nil {
			return in(stepTo(key), err)
		}
		v.SetMapIndex(key, e)
	}
	return nil
}

// withoutZone keeps the offset of a time and drops its zone. Parsing assigns the local zone to a time with the local offset, so the same
// payload would print differently on another machine.
func withoutZone(at time.Time) time.Time {
	if at.Location() != time.Local { //nolint:gosmopolitan // to remove the local zone
		return at
	}
	_, offset := at.Zone()
	if offset == 0 {
		return at.UTC()
	}
	return at.In(time.FixedZone("", offset))
}

// settleAny converts the numbers in a value decoded into an any to float64.
func settleAny(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i, e := range v {
			settled, err := settleAny(e)
			if err != nil {
				return nil, in("["+strconv.Itoa(i)+"]", err)
			}
			v[i] = settled
		}
	case map[string]any:
		for k, e := range v {
			settled, err := settleAny(e)
			if err != nil {
				return nil, in(fmt.Sprintf("[%.40q]", k), err)
			}
			v[k] = settled
		}
	}
	return v, nil
}

// number returns the float64 of a number. An integer that would lose digits is an error: it has neither a point nor an exponent, but the
// float64 prints with other digits.
func number(n json.Number) (any, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, &Error{Reason: fmt.Sprintf("the number %.40s is beyond all float64; use a typed field or a text", n)}
	}
	if text := n.String(); !strings.ContainsAny(text, ".eE") && strconv.FormatFloat(f, 'f', -1, 64) != text {
		return nil, &Error{Reason: fmt.Sprintf("the integer %.40s in an any would become a float64, which cannot hold it; use a typed field or a text", n)}
	}
	return f, nil
}
