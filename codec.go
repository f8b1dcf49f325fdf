package pawl

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/pawlrun/pawl/internal/payload"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// None is the type of an input, a result or an event that carries nothing. It
// encodes to nothing, and whatever arrives decodes into it.
type None struct{}

// form is how one type is encoded: as JSON, see internal/payload. A handle works its forms
// out once, when it is declared. The same value always gives the same bytes, which are
// part of the effect id.
type form struct {
	typ  *payload.Type // nil: of None, and of what cannot be a payload
	none bool
	err  error // why the type cannot be a payload: ErrUnencodable
}

func formOf[T any]() form { return formOfType(reflect.TypeFor[T]()) }

func formOfType(t reflect.Type) form {
	if t == reflect.TypeFor[None]() {
		return form{none: true}
	}
	typ, err := payload.TypeOf(t)
	if err != nil {
		return form{err: unencodable(err)}
	}
	return form{typ: typ}
}

// encodeError is an ErrUnencodable that comes from a method of the author's.
type encodeError struct {
	error
	cause error
}

func (e encodeError) Unwrap() []error { return []error{e.error, e.cause} }

func unencodable(err error) error {
	f := FromFailure(history.Failure{Code: history.CodeUnencodable, Permanent: true, Message: "pawl: encode " + err.Error()})
	if cause := errors.Unwrap(err); cause != nil {
		return encodeError{f, cause}
	}
	return f
}

func encode[T any](f form, v T) (history.Payload, error) { return f.encode(&v) }

// encode encodes the value that ptr points to.
func (f form) encode(ptr any) (history.Payload, error) {
	if f.none || f.err != nil {
		return history.Payload{}, f.err
	}
	data, err := f.typ.Encode(ptr)
	if err != nil {
		return history.Payload{}, unencodable(err)
	}
	if len(data) > replay.MaxPayload {
		return history.Payload{}, FromFailure(history.Failure{
			Code: history.CodeTooLarge, Permanent: true,
			Message: fmt.Sprintf("%s encodes to %d bytes, and the limit is %d", reflect.TypeOf(ptr).Elem(), len(data), replay.MaxPayload),
		})
	}
	return history.Payload{Type: history.TypeJSON, Data: data}, nil
}

// encodeAny encodes a value by the type that it has.
func encodeAny(v any) (history.Payload, error) {
	if v == nil {
		return encode[any](formOf[any](), nil)
	}
	ptr := reflect.New(reflect.TypeOf(v))
	ptr.Elem().Set(reflect.ValueOf(v))
	return formOfType(ptr.Type().Elem()).encode(ptr.Interface())
}

// decode reads a payload into a T. An error is a *Failure that is ErrUndecodable.
func decode[T any](f form, p history.Payload) (T, error) {
	var v, zero T
	if f.none {
		return v, nil
	}
	if err := f.decode(p, &v); err != nil {
		return zero, err
	}
	return v, nil
}

// decode reads a payload into the value that ptr points to.
func (f form) decode(p history.Payload, ptr any) error {
	typ := reflect.TypeOf(ptr).Elem()
	switch {
	case f.err != nil:
		return f.err
	case p.Type == "":
		return undecodable("a payload for %s is empty", typ)
	case p.Type != history.TypeJSON:
		return undecodable("a payload for %s has the unknown content type %q", typ, p.Type)
	}
	if err := f.typ.Decode(p.Data, ptr); err != nil {
		return undecodable("a payload of %d bytes does not decode into %s: %s", len(p.Data), typ, text.Shorten(err.Error(), replay.MaxReason)) // it may quote all of it
	}
	return nil
}
