package record

import (
	"slices"
	"strconv"

	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/history"
)

// Indexes.
//
// An instance with a record is a member of these sorted sets, all in the slot of its partition:
//
//	x:<status>            by the time at which it has reached the status, ms
//	v:<field>:<value>     by id, with the score zero: one set for each value of orchestration, version, parent, failure code and of
//	                      attributes that are texts or bools; for unanswered, the instances that have not answered a received update
//	v:stalled:true        by id, with the score zero, while it is stalled
//	n:<field>             by value: one set for each attribute that is a number or a time, in Unix ms
//
// The record alone determines the sets. Each script that changes a record changes the sets with it: a commit changes the sets of the
// values that differ (an end only those of the status and the failure code), a purge all sets, a wipe the sets that a scan has found. The
// scripts themselves read the mark of a stalled instance, because its owner may not have it, and change the mark and its set together. So
// a rollback, a crash or a lost reply leaves no inconsistency to repair. An empty set has no key.
//
// The sets of statuses determine the order of all lists; the sets of values select. Every instance is in the set of its orchestration,
// so the sets of all orchestrations together contain all ids in order. The set named orchestrations contains the name of each
// orchestration whose set has a member: the script that changes one changes both.

// maxIndexedValue is the maximum size of an indexed value in bytes; longer values are compared in the records.
const maxIndexedValue = 256

// The indexed fields of a record. The names are those of package filter.
const (
	FieldOrchestration = "orchestration"
	FieldVersion       = "version"
	FieldParent        = "parent"
	FieldCode          = "code"
	FieldUnanswered    = "unanswered" // updates: "true"
	FieldStalled       = "stalled"    // "true"; not among Entries
)

// Indexed reports whether there is an index for a value.
func Indexed(value string) bool { return value != "" && len(value) <= maxIndexedValue }

// Entry is the membership of an instance in an index, other than that of its status.
type Entry struct {
	Field   string
	Value   string // a number as its digits
	Numeric bool   // the set of all numbers of the field
}

// replaces reports whether an entry changes the number of a member of the same set.
func (e *Entry) replaces(other Entry) bool {
	return e.Numeric && other.Numeric && e.Field == other.Field
}

// Orchestration returns the name of the orchestration whose instances are in the set; "" for the set of another field.
func (e *Entry) Orchestration() string {
	if e.Field == FieldOrchestration {
		return e.Value
	}
	return ""
}

// Entries returns the index entries of a record; nil has none.
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
	attributes, _ := attribute.Parse(r.Attributes)
	for _, a := range attributes {
		if n, ok := a.Number(); ok {
			all = append(all, Entry{Field: a.Name, Value: strconv.FormatInt(n, 10), Numeric: true})
			continue
		}
		add(a.Name, a.Value)
	}
	return all
}

// Row returns the values of an instance that a filter compares.
func (r *Record) Row(id string) *filter.Row {
	row := &filter.Row{
		ID: id, Status: string(r.Status), Orchestration: r.Name, Version: r.Version, Code: r.FailureCode(), Unanswered: r.WaitsForAnswer(),
		Started: r.Created, Updated: r.Updated, Ended: r.Ended,
	}
	attributes, _ := attribute.Parse(r.Attributes)
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

// WaitsForAnswer returns "true" if the instance runs and has received updates that it has not answered; "" otherwise.
func (r *Record) WaitsForAnswer() string {
	if r.Unanswered == "true" && !r.Status.Ended() {
		return r.Unanswered
	}
	return ""
}

// FailureCode returns the code of the failure that ended the instance; "" if it has not failed, or has no code.
func (r *Record) FailureCode() string {
	code, _ := r.Failure()
	return code
}

// Failure returns the code and the message of the failure that ended the instance; "" if it has not failed.
func (r *Record) Failure() (code, message string) {
	if r.Status != Failed {
		return "", ""
	}
	switch e, _ := eventcodec.Decode(r.Events, r.End); e := e.(type) {
	case *history.Failed:
		return e.Failure.Code, e.Failure.Message
	default:
		return "", ""
	}
}

// Reindex sets Leave and Enter to the difference between the index entries before the commit (was, nil: no record) and after it.
func (c *Commit) Reindex(was *Record) {
	if c.Record == nil || c.Record.Name == "" && c.Record.Status == "" && c.Record.Attributes == "" && c.Record.Unanswered == "" {
		return // most commits, such as that of a completion
	}
	now := *c.Record
	now.keep(was)
	if was != nil && was.Attributes == now.Attributes { // the same, as in most commits: do not parse them
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
