package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// Status is the status of an instance.
type Status string

// The statuses. Each has an index of its instances.
const (
	Pending   Status = "pending" // it waits at the limit of its orchestration, and has not run
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Statuses lists the statuses in the order in which they are shown.
func Statuses() []Status { return []Status{Pending, Running, Completed, Failed, Cancelled} }

// Record has the properties of an instance besides its history.
//
// In a Commit it has the changes. With a Name the identity is written: Name, Version, Origin, Execution, Created and, if there is
// one, Parent; without, it stays. Other zero fields stay as they are.
type Record struct {
	Name      string
	Version   string
	Origin    history.Position
	Execution uint64 // the current one; its history may still be empty
	Status    Status
	Head      string          // random, set by every commit
	Created   int64           // Unix ms: time of the start input
	Updated   int64           // Unix ms: last commit, by Redis TIME
	Events    uint64          // length of the history of Execution
	Ended     int64           // Unix ms; 0 while it runs
	End       []byte          // the event that ended it, encoded
	Parent    *history.Parent // nil: none

	Unread []history.UnreadEvents // at the end: the events that it had not received, as recorded by its owner

	Custom        history.Payload // the custom status
	CustomVersion uint64          // number of custom statuses set, over all executions; 0: none, and then Custom is not written

	Produced  Watermark // the last event that produced a message
	Published Watermark // the last event whose messages are in the inputs stream; before Produced: messages are pending

	// Retained are the tickets whose slots are retained from one attempt to the next, in order. It is only read: a Commit has the
	// changes. A limit's sweep finds in it that such a slot is required; see decision 14.
	Retained []string

	// NewIncarnation replaces an instance that has ended, in a Commit: its end, custom status, parent and watermark are cleared,
	// except what the same Record sets. It is never read back.
	NewIncarnation bool
}

// retainedField, followed by a ticket, is the field of the record for the ticket of a retained slot. orphans.lua of package
// limiter reads it.
const retainedField = "r:"

// fields lists the fields that a commit writes; the script writes head, updated and events, and clears what NewIncarnation
// clears.
func (r *Record) fields() []any {
	f := make([]any, 0, 30)
	add := func(k string, v any) { f = append(f, k, v) }
	if r.Name != "" {
		add("name", r.Name)
		add("version", r.Version)
		add("orig", formatOrigin(r.Origin))
		add("execution", num(r.Execution))
		add("created", num(r.Created))
		if r.Parent != nil {
			add("parent", formatParent(r.Parent))
			if r.Parent.HeldLimits != "" {
				add("held", r.Parent.HeldLimits)
			}
		}
	}
	if r.Status != "" {
		add("status", string(r.Status))
	}
	if r.Ended != 0 {
		add("ended", num(r.Ended))
		add("end", r.End)
	}
	if len(r.Unread) > 0 {
		add("unread", encodeUnread(r.Unread))
	}
	if r.CustomVersion > 0 {
		add("custom.type", r.Custom.Type)
		add("custom.data", r.Custom.Data)
		add("custom.version", num(r.CustomVersion))
	}
	if r.Produced != (Watermark{}) {
		add("prod", r.Produced.String())
	}
	if r.Published != (Watermark{}) {
		add("pub", r.Published.String())
	}
	return f
}

// EndEvent returns the event that ends an execution, or nil.
func (r *Record) EndEvent() (history.Event, error) {
	if len(r.End) == 0 {
		return nil, nil //nolint:nilnil // no end is not an error
	}
	return history.Decode(r.Events, r.End)
}

// recordFields parses a record field by field, and keeps the first error.
type recordFields struct {
	fields map[string]string
	err    error
}

func (h *recordFields) keep(field string, err error) {
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("record: field %s is %.100q: %w", field, h.fields[field], history.ErrCorrupt)
	}
}

func (h *recordFields) number(field string) int64 {
	text := h.fields[field]
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	h.keep(field, err)
	return n
}

func (h *recordFields) count(field string) uint64 { return uint64(h.number(field)) } //nolint:gosec // written from a uint64 below 2^63

func (h *recordFields) watermark(field string) Watermark {
	m, err := parseWatermark(h.fields[field])
	h.keep(field, err)
	return m
}

func encodeUnread(all []history.UnreadEvents) string {
	b, err := json.Marshal(all)
	if err != nil { // names and numbers always encode
		return "[]"
	}
	return string(b)
}

func (h *recordFields) unread(field string) (all []history.UnreadEvents) {
	if text := h.fields[field]; text != "" {
		h.keep(field, json.Unmarshal([]byte(text), &all))
	}
	return all
}

func parseRecord(m map[string]string) (*Record, error) {
	h := &recordFields{fields: m}
	r := &Record{
		Name: m["name"], Version: m["version"], Status: Status(m["status"]), Head: m["head"],
		Execution: h.count("execution"), Events: h.count("events"),
		Created: h.number("created"), Updated: h.number("updated"), Ended: h.number("ended"), End: []byte(m["end"]),
		CustomVersion: h.count("custom.version"), Produced: h.watermark("prod"), Published: h.watermark("pub"),
		Unread: h.unread("unread"),
	}
	if r.CustomVersion > 0 {
		r.Custom = history.Payload{Type: m["custom.type"], Data: []byte(m["custom.data"])}
	}
	for f := range m {
		if ticket, ok := strings.CutPrefix(f, retainedField); ok {
			r.Retained = append(r.Retained, ticket)
		}
	}
	slices.Sort(r.Retained)
	var err error
	r.Origin, err = parseOrigin(m["orig"])
	h.keep("orig", err)
	r.Parent, err = parseParent(m["parent"], m["held"])
	h.keep("parent", err)
	if r.Name == "" || r.Head == "" || r.Status == "" {
		h.err = fmt.Errorf("record: a field is missing: %w", history.ErrCorrupt)
	}
	return r, h.err
}
