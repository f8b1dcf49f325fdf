package author

import "github.com/pawlrun/pawl/pkg/history"

// AttributeValue is an attribute with a value, or the error for which it is invalid.
type AttributeValue struct {
	history.Attribute

	Err error
}
