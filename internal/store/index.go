package store

import (
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// setKey returns the key of the set of an entry.
func setKey(p redisx.Part, e *record.Entry) string {
	if e.Numeric {
		return p.Numbers(e.Field)
	}
	return p.Values(e.Field, e.Value)
}

// stalledSet returns the key of the set of stalled instances that have a record.
func stalledSet(p redisx.Part) string { return p.Values(record.FieldStalled, "true") }

// entryScore returns the score of an instance in the set of an entry.
func entryScore(e *record.Entry) string {
	if e.Numeric {
		return e.Value
	}
	return "0"
}
