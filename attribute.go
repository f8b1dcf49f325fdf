package pawl

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/author"
)

// ErrBadAttribute matches the error for an invalid attribute name or value, and for a ninth attribute.
var ErrBadAttribute = attribute.ErrInvalid

// Attribute is the handle of an attribute: a named property of an instance that lists and counts can filter by. It is immutable, so any
// package may use it.
//
//	var Tenant = pawl.NewAttribute[string]("tenant")
//
//	err := Tenant.Set(ctx, "acme") // in the code of an instance; or at its start: client.With(Tenant.Is("acme"))
//
// An instance has at most 8 attributes. The value is a string of at most 256 bytes, a bool, an integer, or a time with millisecond
// precision. Filters refer to attributes by name: `tenant = acme and items > 5`. An attribute becomes visible when the turn that sets it
// is committed. It survives continue-as-new and the end of the instance.
type Attribute[T string | bool | int | int64 | time.Time] struct{ name string }

// AttributeValue is an attribute together with a value: Tenant.Is("acme"). If the attribute or the value is invalid, the call that uses it
// returns ErrBadAttribute.
type AttributeValue struct{ author.Attribute }

// NewAttribute declares an attribute. The name has 1 to 64 characters of A-Z a-z 0-9 _ -, begins with a letter, and must not be the name
// of a built-in filter field, such as status. If it is invalid, every use of the handle returns ErrBadAttribute.
func NewAttribute[T string | bool | int | int64 | time.Time](name string) Attribute[T] {
	return Attribute[T]{name}
}

// Name returns the attribute's name.
func (a Attribute[T]) Name() string { return a.name }

// Is returns the attribute with the value v, for client.With.
func (a Attribute[T]) Is(v T) AttributeValue {
	var value any = v
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	return AttributeValue{author.NewAttribute(a.name, value)}
}

// Set sets the attribute. It also works in a cancelled instance. The value is not recorded in the history, because the code sets it again
// on replay. If the error is ErrBadAttribute, the attribute keeps its value.
func (a Attribute[T]) Set(ctx *Context, v T) error {
	x, err := author.AttributeOf(a.Is(v))
	if err != nil {
		return fmt.Errorf("pawl: %w", err)
	}
	return ctx.x.SetAttribute(x)
}

// Get returns the value that was set last, at the start or by the code. ok is false if there is none or it has another type. The result
// is the same on replay.
func (a Attribute[T]) Get(ctx *Context) (v T, ok bool, err error) {
	all, err := ctx.x.CurrentAttributes()
	if err != nil {
		return v, false, err
	}
	x, _ := all.Get(a.name)
	n, isNumber := x.Number()
	switch p := any(&v).(type) {
	case *string:
		*p, ok = x.Value, x.Name != "" && x.Kind == attribute.Keyword
	case *bool:
		*p, ok = x.Value == "true", x.Kind == attribute.Bool
	case *int:
		*p, ok = int(n), isNumber && x.Kind == attribute.Int
	case *int64:
		*p, ok = n, isNumber && x.Kind == attribute.Int
	case *time.Time:
		if ok = isNumber && x.Kind == attribute.Time; ok {
			*p = time.UnixMilli(n).UTC()
		}
	}
	return v, ok, nil
}

// Clear removes the attribute. It also works in a cancelled instance.
func (a Attribute[T]) Clear(ctx *Context) error { return ctx.x.ClearAttribute(a.name) }
