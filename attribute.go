package pawl

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

// ErrBadAttribute matches the error of a name or a value that no attribute can have, and of a ninth attribute.
var ErrBadAttribute = history.ErrAttribute

// Attribute is the handle of an attribute: a property of instances by which lists and counts find them. It is immutable, so any
// package may use it.
//
//	var Tenant = pawl.NewAttribute[string]("tenant")
//
//	err := Tenant.Set(ctx, "acme") // in the code of an instance; or at its start: client.With(Tenant.Is("acme"))
//
// An instance has at most 8, each of a string of at most 256 bytes, a bool, a whole number or a time, which is kept in milliseconds.
// A filter such as `tenant = acme and items > 5` names them. An attribute is visible when the turn that sets it is committed. It
// survives continue-as-new and the end of the instance.
type Attribute[T string | bool | int | int64 | time.Time] struct{ name string }

// AttributeValue is an attribute with a value.
type AttributeValue = author.AttributeValue

// NewAttribute declares an attribute. The name has 1 to 64 characters of A-Z a-z 0-9 _ -, with a letter first, and is not that of a
// field of filters, such as status; otherwise every use of the handle returns ErrBadAttribute.
func NewAttribute[T string | bool | int | int64 | time.Time](name string) Attribute[T] {
	return Attribute[T]{name}
}

// Name is the name.
func (a Attribute[T]) Name() string { return a.name }

// Is is the attribute with a value.
func (a Attribute[T]) Is(v T) AttributeValue {
	var value any = v
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	x, err := history.AttributeOf(a.name, value)
	return AttributeValue{Attribute: x, Err: err}
}

// Set sets the attribute, also in an instance that was cancelled. It is not in the history: it follows from the code. The error is
// ErrBadAttribute; then the attribute keeps its value.
func (a Attribute[T]) Set(ctx *Context, v T) error {
	x := a.Is(v)
	if x.Err != nil {
		return fmt.Errorf("pawl: %w", x.Err)
	}
	return ctx.x.SetAttribute(x.Attribute)
}

// Get returns the value that the start or the code has set last; ok is false if there is none, or one of another type. It is the
// same on replay.
func (a Attribute[T]) Get(ctx *Context) (v T, ok bool, err error) {
	all, err := ctx.x.CurrentAttributes()
	if err != nil {
		return v, false, err
	}
	x, _ := all.Get(a.name)
	n, isNumber := x.Number()
	switch p := any(&v).(type) {
	case *string:
		*p, ok = x.Value, x.Name != "" && x.Kind == history.Keyword
	case *bool:
		*p, ok = x.Value == "true", x.Kind == history.Bool
	case *int:
		*p, ok = int(n), isNumber && x.Kind == history.Int
	case *int64:
		*p, ok = n, isNumber && x.Kind == history.Int
	case *time.Time:
		if ok = isNumber && x.Kind == history.Time; ok {
			*p = time.UnixMilli(n).UTC()
		}
	}
	return v, ok, nil
}

// Clear removes the attribute, also in an instance that was cancelled.
func (a Attribute[T]) Clear(ctx *Context) error { return ctx.x.ClearAttribute(a.name) }
