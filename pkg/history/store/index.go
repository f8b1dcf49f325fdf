package store

import (
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// setKey is the key of the set of an entry.
func setKey(p redisx.Part, e *record.Entry) string {
	if e.Numeric {
		return p.Numbers(e.Field)
	}
	return p.Values(e.Field, e.Value)
}

// stalledSet is the key of the set of the stalled instances that have a record.
func stalledSet(p redisx.Part) string { return p.Values(record.FieldStalled, "true") }

// entryScore is the score of a member.
func entryScore(e *record.Entry) string {
	if e.Numeric {
		return e.Value
	}
	return "0"
}
