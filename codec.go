package pawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/replay"
)

// None is the type of an input, a result or an event that carries nothing. It
// encodes to nothing, and whatever arrives decodes into it.
type None struct{}

// form is how one type is encoded. A handle works its forms out once, when it is declared.
//
// The encoding is msgpack; a field's name is its msgpack tag or else its json tag, so
// that JSON from a foreign client decodes into the same struct. The same value must
// always give the same bytes, for they are part of the effect id: where a type can
// hold a map, the bytes are brought into key order.
type form struct {
	typ  reflect.Type
	none bool
	sort bool
}

func formOf[T any]() form { return formOfType(reflect.TypeFor[T]()) }

func newForm(v any) form {
	if v == nil {
		return form{typ: reflect.TypeFor[any]()}
	}
	return formOfType(reflect.TypeOf(v))
}

func formOfType(t reflect.Type) form {
	return form{typ: t, none: t == reflect.TypeFor[None](), sort: holdsMaps(t, make(map[reflect.Type]bool))}
}

// holdsMaps reports whether a value of the type may hold a map whose order the
// encoder leaves to chance. It sorts only the two kinds excepted here.
func holdsMaps(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map:
		return t != reflect.TypeFor[map[string]string]() && t != reflect.TypeFor[map[string]bool]()
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsMaps(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if holdsMaps(f.Type, seen) {
				return true
			}
		}
		return false
	default:
		return false
	}
}

func (f form) encode(v any) (history.Payload, error) {
	if f.none {
		return history.Payload{}, nil
	}
	var buf bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	enc.SetCustomStructTag("json")
	enc.SetSortMapKeys(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return history.Payload{}, fmt.Errorf("pawl: encode %s: %w", f.typ, err)
	}
	data := buf.Bytes()
	if f.sort {
		var err error
		if data, err = inKeyOrder(data); err != nil {
			return history.Payload{}, fmt.Errorf("pawl: encode %s: %w", f.typ, err)
		}
	}
	if len(data) > replay.MaxPayload {
		return history.Payload{}, FromFailure(history.Failure{
			Code: history.CodeTooLarge, Permanent: true,
			Message: fmt.Sprintf("%s encodes to %d bytes, and the limit is %d", f.typ, len(data), replay.MaxPayload),
		})
	}
	return history.Payload{Type: history.TypeMsgpack, Data: data}, nil
}

// decode reads a payload into a T. An error is a *Failure that is ErrUndecodable.
func decode[T any](f form, p history.Payload) (T, error) {
	var v T
	if f.none {
		return v, nil
	}
	err := unmarshal(p, &v)
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

func unmarshal(p history.Payload, v any) error {
	typ := reflect.TypeOf(v).Elem()
	var err error
	switch p.Type {
	case history.TypeMsgpack:
		err = unmarshalMsgpack(p.Data, v)
	case history.TypeJSON:
		err = json.Unmarshal(p.Data, v)
	case "":
		return undecodable("a payload for %s is empty", typ)
	default:
		return undecodable("a payload for %s has the unknown content type %q", typ, p.Type)
	}
	if err != nil {
		return undecodable("a payload of %d bytes of %s does not decode into %s: %v", len(p.Data), p.Type, typ, err)
	}
	return nil
}

func unmarshalMsgpack(data []byte, v any) error {
	r := bytes.NewReader(data)
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(r)
	dec.SetCustomStructTag("json")
	dec.UseLooseInterfaceDecoding(true)
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("msgpack: %w", err)
	}
	if r.Len() > 0 {
		return fmt.Errorf("%d bytes follow the value", r.Len())
	}
	return nil
}
