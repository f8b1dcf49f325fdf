package record

import (
	"cmp"
	"slices"
)

// Advance completes the Record of a written commit to the stored record, and returns it. was is the record before the commit; nil: none.
func (c *Commit) Advance(was *Record) *Record {
	r := c.Record
	r.keep(was)
	r.Retained = AdvanceRetained(r.Retained, c.Release, c.Retain)
	r.Head = c.NewHead
	return r
}

// keep sets the fields that the changes of a commit leave as they were.
func (r *Record) keep(was *Record) {
	r.Retained, r.Replaced = nil, r.NewIncarnation
	if was == nil || r.NewIncarnation {
		return
	}
	r.Retained, r.Replaced = was.Retained, was.Replaced
	if r.Name == "" {
		r.Name, r.Version, r.Origin, r.Execution, r.Created = was.Name, was.Version, was.Origin, was.Execution, was.Created
	}
	if r.Parent == nil {
		r.Parent = was.Parent
	}
	if r.Status == "" {
		r.Status, r.Ended, r.Events, r.End, r.Unread = was.Status, was.Ended, was.Events, was.End, was.Unread
	}
	if r.CustomVersion == 0 {
		r.Custom, r.CustomVersion = was.Custom, was.CustomVersion
	}
	r.Attributes, r.Unanswered = cmp.Or(r.Attributes, was.Attributes), cmp.Or(r.Unanswered, was.Unanswered)
	r.Control, r.Produced, r.Published = cmp.Or(r.Control, was.Control), cmp.Or(r.Produced, was.Produced), cmp.Or(r.Published, was.Published)
}

// AdvanceRetained returns the retained tickets of a record after a script that first releases some and then retains others, sorted.
func AdvanceRetained(was, release, retain []string) []string {
	kept := slices.DeleteFunc(slices.Clone(was), func(ticket string) bool { return slices.Contains(release, ticket) })
	kept = append(kept, retain...)
	slices.Sort(kept)
	return slices.Compact(kept)
}
