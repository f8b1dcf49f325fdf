package pawl

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/payload"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// None is the type of an input, a result or an event without data. It encodes to an empty payload, and every payload decodes to it.
type None struct{}

// form encodes and decodes one type as JSON (see internal/payload). A handle computes its forms once, when it is declared. Equal values
// encode to equal bytes, because the effect id includes them.
type form struct {
	typ  *payload.Type // nil for None and for a type that cannot be a payload
	none bool
	err  error // why the type cannot be a payload; matches ErrUnencodable
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

// encodeError is an ErrUnencodable that also wraps the error returned by a method of the author's type.
type encodeError struct {
	error
	cause error
}

func (e encodeError) Unwrap() []error { return []error{e.error, e.cause} }

func unencodable(err error) error {
	f := &Failure{history.Failure{Code: history.CodeUnencodable, Permanent: true, Message: "pawl: encode " + err.Error()}}
	if cause := errors.Unwrap(err); cause != nil {
		return encodeError{f, cause}
	}
	return f
}

func encode[T any](f form, v T, limit int) (history.Payload, error) { return f.encode(&v, limit) }

// encode encodes the value that ptr points to. The encoding has at most limit bytes.
func (f form) encode(ptr any, limit int) (history.Payload, error) {
	if f.none || f.err != nil {
		return history.Payload{}, f.err
	}
	data, err := f.typ.Encode(ptr)
	if err != nil {
		return history.Payload{}, unencodable(err)
	}
	if len(data) > limit {
		return history.Payload{}, &Failure{history.Failure{
			Code: history.CodeTooLarge, Permanent: true,
			Message: fmt.Sprintf("%s encodes to %d bytes, and the limit is %d", reflect.TypeOf(ptr).Elem(), len(data), limit),
		}}
	}
	return history.Payload{Type: history.TypeJSON, Data: data}, nil
}

// encodeAny encodes a value according to its dynamic type.
func encodeAny(v any) (history.Payload, error) {
	if v == nil {
		return encode[any](formOf[any](), nil, sealing.MaxInline)
	}
	ptr := reflect.New(reflect.TypeOf(v))
	ptr.Elem().Set(reflect.ValueOf(v))
	return formOfType(ptr.Type().Elem()).encode(ptr.Interface(), sealing.MaxInline)
}

// decode decodes a payload into a T. The error is a *Failure that matches ErrUndecodable.
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

// decode decodes a payload into the value that ptr points to.
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
		return undecodable("a payload of %d bytes does not decode into %s: %s", len(p.Data), typ, text.Shorten(err.Error(), replay.MaxReason)) // err may quote the whole payload
	}
	return nil
}

// codec combines the form of a handle's type with the handle's error, for package author.
type codec[T any] struct {
	form form
	err  error
}

// Encode implements author.Codec. It allows the size of stored payloads: whether there is an object store is checked by the caller.
func (c codec[T]) Encode(v T) (history.Payload, error) {
	if c.err != nil {
		return history.Payload{}, c.err
	}
	return encode(c.form, v, sealing.MaxStored)
}

// Decode implements author.Codec.
func (c codec[T]) Decode(p history.Payload) (T, error) { return decode[T](c.form, p) }

type handle[In, Out any] = author.Handle[In, Out]

func handleOf[In, Out any](in, out form, limits *history.Declared, err error) handle[In, Out] {
	return author.NewHandle[In, Out](codec[In]{in, err}, codec[Out]{out, err}, limits)
}

type typed[T any] = author.Typed[T]

func typedOf[T any](f form, err error) typed[T] { return author.NewTyped[T](codec[T]{f, err}) }
