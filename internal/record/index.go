package record

import (
	"slices"
	"strconv"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/history"
)

// Indexes.
//
// An instance with a record is a member of these sorted sets, all in the slot of its partition:
//
//	x:<status>            by the time at which it has reached the status, ms
//	v:<field>:<value>     all with the score zero, by id: of the orchestration and, where there is one, of version, parent, failure
//	                      code and attributes that are texts or bools; of unanswered, those that have received updates and not answered them
//	v:stalled:true        with the score zero, while it is stalled
//	n:<field>             the number, or the time in Unix ms: for each such attribute
//
// The record alone decides which. Each script that changes it changes the sets with it: a commit those of the values that differ
// (an end only the set of the status, and that of a failure's code), a purge all, a wipe those that a scan has found. The mark of a
// stalled instance is read by the scripts, because its owner may not know it: they change it and its set together. So a
// rollback, a crash and a lost reply have no states of their own, and there is nothing to repair. A set without members is no key.
//
// The sets of the statuses have the order of all lists; those of values select. Every instance is in that of its orchestration,
// so that these, of all orchestrations, have all ids in order. The set of their names, orchestrations, has a name as long as its set has
// a member: the script that changes one changes both.

// maxIndexedValue bounds the values that have a set, in bytes; longer ones are compared in the records.
const maxIndexedValue = 256

// The fields of a record that have sets of their values. The names are those of package filter.
const (
	FieldOrchestration = "orchestration"
	FieldVersion       = "version"
	FieldParent        = "parent"
	FieldCode          = "code"
	FieldUnanswered    = "unanswered" // updates: "true"
	FieldStalled       = "stalled"    // "true"; not among Entries
)

// Indexed reports whether instances with a value have a set.
func Indexed(value string) bool { return value != "" && len(value) <= maxIndexedValue }

// Entry is the membership of an instance in an index besides that of its status.
type Entry struct {
	Field   string
	Value   string // of a number its digits
	Numeric bool   // the set is that of all numbers of the field
}

// replaces reports whether an entry gives a member of the same set another number.
func (e *Entry) replaces(other Entry) bool {
	return e.Numeric && other.Numeric && e.Field == other.Field
}

// Orchestration is the name of the orchestration whose instances the set has; "" for one of another field.
func (e *Entry) Orchestration() string {
	if e.Field == FieldOrchestration {
		return e.Value
	}
	return ""
}

// Entries are those of a record; nil: none.
func (r *Record) Entries() []Entry {
	if r == nil {
		return nil
	}
	all := make([]Entry, 0, 4)
	add := func(field, value string) {
		if Indexed(value) {
			all = append(all, Entry{Field: field, Value: value})
		}
	}
	add(FieldOrchestration, r.Name)
	add(FieldVersion, r.Version)
	if r.Parent != nil {
		add(FieldParent, r.Parent.Instance)
	}
	add(FieldCode, r.FailureCode())
	add(FieldUnanswered, r.WaitsForAnswer())
	attributes, _ := history.ParseAttributes(r.Attributes)
	for _, a := range attributes {
		if n, ok := a.Number(); ok {
			all = append(all, Entry{Field: a.Name, Value: strconv.FormatInt(n, 10), Numeric: true})
			continue
		}
		add(a.Name, a.Value)
	}
	return all
}

// Row is what a filter compares of an instance.
func (r *Record) Row(id string) *filter.Row {
	row := &filter.Row{
		ID: id, Status: string(r.Status), Orchestration: r.Name, Version: r.Version, Code: r.FailureCode(), Unanswered: r.WaitsForAnswer(),
		Started: r.Created, Updated: r.Updated, Ended: r.Ended,
	}
	attributes, _ := history.ParseAttributes(r.Attributes)
	for _, a := range attributes {
		if row.Attributes == nil {
			row.Attributes = make(map[string]filter.Value, len(attributes))
		}
		n, ok := a.Number()
		row.Attributes[a.Name] = filter.Value{Text: a.Value, Number: n, Numeric: ok}
	}
	if r.Parent != nil {
		row.Parent = r.Parent.Instance
	}
	if r.Stalled {
		row.Stalled = "true"
	}
	return row
}

// WaitsForAnswer is "true" of an instance that has received updates and not answered them; "" of any other.
func (r *Record) WaitsForAnswer() string {
	if r.Unanswered == "true" && !r.Status.Ended() {
		return r.Unanswered
	}
	return ""
}

// FailureCode is the code of the failure that ended the instance; "" if it has not failed, or without one.
func (r *Record) FailureCode() string {
	code, _ := r.Failure()
	return code
}

// Failure is the code and the text of the failure that ended the instance; "" if it has not failed.
func (r *Record) Failure() (code, message string) {
	if r.Status != Failed {
		return "", ""
	}
	switch e, _ := history.Decode(r.Events, r.End); e := e.(type) {
	case *history.Failed:
		return e.Failure.Code, e.Failure.Message
	default:
		return "", ""
	}
}

// Reindex sets Leave and Enter: the entries in which the record before the commit, nil for none, and the one after it differ.
func (c *Commit) Reindex(was *Record) {
	if c.Record == nil || c.Record.Name == "" && c.Record.Status == "" && c.Record.Attributes == "" && c.Record.Unanswered == "" {
		return // as that of an activity
	}
	now := c.Record.after(was)
	if was != nil && was.Attributes == now.Attributes { // neither is parsed, as at the end of most instances
		plain := *was
		plain.Attributes, now.Attributes = "", ""
		was = &plain
	}
	before, after := was.Entries(), now.Entries()
	for _, e := range before {
		if !slices.Contains(after, e) && !slices.ContainsFunc(after, e.replaces) {
			c.Leave = append(c.Leave, e)
		}
	}
	for _, e := range after {
		if !slices.Contains(before, e) {
			c.Enter = append(c.Enter, e)
		}
	}
}

// after is what a record has that the indexes depend on, when these changes are written.
func (r *Record) after(was *Record) *Record {
	now := *r
	if was == nil || r.NewIncarnation {
		return &now
	}
	if now.Name == "" {
		now.Name, now.Version = was.Name, was.Version
	}
	if now.Parent == nil {
		now.Parent = was.Parent
	}
	if now.Attributes == "" {
		now.Attributes = was.Attributes
	}
	if now.Unanswered == "" {
		now.Unanswered = was.Unanswered
	}
	if now.Status == "" {
		now.Status, now.End, now.Events = was.Status, was.End, was.Events
	}
	return &now
}
