package author

import "github.com/pawlrun/pawl/pkg/history"

// AttributeValue is an attribute with a value, or why it can be none.
type AttributeValue struct {
	history.Attribute

	Err error
}
