package builtin

import (
	"encoding/json"
	"fmt"
)

// Convert returns a configuration of package client as the type of this package with the same fields. It copies by their JSON, which is the
// stored form of both: a test compares the fields and tags of the types. The error is that of a field that cannot be encoded.
func Convert[To any](from any) (to To, err error) {
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, &to)
	}
	if err != nil {
		return to, fmt.Errorf("configuration: %w", err)
	}
	return to, nil
}
