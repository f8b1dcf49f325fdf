package replay

import (
	"github.com/pawlrun/pawl/internal/attribute"
)

// SetAttribute sets an attribute of the instance. Like the custom status, it is not recorded in the history. The error matches
// attribute.ErrInvalid if the instance has too many attributes.
func (x *Code) SetAttribute(a attribute.Attribute) error {
	as, err := x.CurrentAttributes()
	if err != nil {
		return err
	}
	if as, err = as.With(a); err == nil {
		x.attrs = as.String()
	}
	return err
}

// ClearAttribute removes an attribute.
func (x *Code) ClearAttribute(name string) error {
	as, err := x.CurrentAttributes()
	if err == nil {
		x.attrs = as.Without(name).String()
	}
	return err
}

// CurrentAttributes returns the attributes of the instance, as last set by the start or the code.
func (x *Code) CurrentAttributes() (attribute.Set, error) {
	if _, err := x.enter(); err != nil {
		return nil, err
	}
	return attribute.Parse(x.currentAttributes())
}

func (x *record) currentAttributes() string {
	if x.attrs == "" {
		return x.started.Attributes
	}
	return x.attrs
}

// Attributes returns the attributes in encoded form. It is empty if the instance has had none in this execution.
func (x *Execution) Attributes() string { return x.currentAttributes() }
