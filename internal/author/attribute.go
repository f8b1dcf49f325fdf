package author

import (
	"github.com/pawlrun/pawl/internal/attribute"
)

// Attribute is embedded in pawl.AttributeValue: an attribute with a value, or the error for which it is invalid.
type Attribute struct {
	set attribute.Attribute
	err error
}

// NewAttribute returns the value of an attribute of type string, bool, int64 or time.Time.
func NewAttribute(name string, value any) Attribute {
	x, err := attribute.Of(name, value)
	return Attribute{set: x, err: err}
}

func (a Attribute) attribute() (attribute.Attribute, error) { return a.set, a.err }

// AttributeOf returns the attribute of a pawl.AttributeValue. The error matches pawl.ErrBadAttribute.
func AttributeOf(v interface {
	attribute() (attribute.Attribute, error)
},
) (attribute.Attribute, error) {
	return v.attribute()
}
