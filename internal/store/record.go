package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// retainedField is the prefix of the record fields for tickets of retained slots; the ticket follows. orphans.lua of package limiter
// reads these fields.
const retainedField = "r:"

// changedFields returns the record fields that a commit writes. The script itself writes head, updated and events, and clears the
// fields that NewIncarnation resets. first means that there is no record yet, so that empty fields need not be written.
func changedFields(r *record.Record, first bool) []any {
	f := make([]any, 0, 30)
	add := func(k string, v any) { f = append(f, k, v) }
	if r.Name != "" {
		add("name", r.Name)
		if r.Version != "" || !first {
			add("version", r.Version)
		}
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
		if b, err := json.Marshal(r.Unread); err == nil { // strings and numbers can always be encoded
			add("unread", b)
		}
	}
	if r.CustomVersion > 0 {
		add("custom.type", r.Custom.Type)
		add("custom.data", r.Custom.Data)
		add("custom.version", num(r.CustomVersion))
	}
	if r.Attributes != "" {
		add("attributes", r.Attributes)
	}
	if r.Unanswered != "" {
		add(record.FieldUnanswered, r.Unanswered)
	}
	if r.Control != (history.Position{}) {
		add("control", formatOrigin(r.Control))
	}
	if r.Produced != (record.Watermark{}) {
		add("prod", r.Produced.String())
	}
	if r.Published != (record.Watermark{}) {
		add("pub", r.Published.String())
	}
	return f
}

// recordFields parses the fields of a record, and keeps the first error.
type recordFields struct {
	fields map[string]string
	err    error
}

func (h *recordFields) keep(field string, err error) {
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("record: field %s is %.100q: %w", field, h.fields[field], eventcodec.ErrCorrupt)
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

func (h *recordFields) watermark(field string) record.Watermark {
	m, err := parseWatermark(h.fields[field])
	h.keep(field, err)
	return m
}

func (h *recordFields) unread(field string) (all []history.UnreadEvents) {
	if text := h.fields[field]; text != "" {
		h.keep(field, json.Unmarshal([]byte(text), &all))
	}
	return all
}

func parseRecord(m map[string]string) (*record.Record, error) {
	h := &recordFields{fields: m}
	r := &record.Record{
		Name: m["name"], Version: m["version"], Status: record.Status(m["status"]), Head: m["head"],
		Execution: h.count("execution"), Events: h.count("events"), Attributes: m["attributes"],
		Created: h.number("created"), Updated: h.number("updated"), Ended: h.number("ended"), End: []byte(m["end"]),
		CustomVersion: h.count("custom.version"), Produced: h.watermark("prod"), Published: h.watermark("pub"),
		Unread: h.unread("unread"), Stalled: m["stalled"] != "",
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
	r.Replaced, r.Unanswered = m["replaced"] != "", m[record.FieldUnanswered]
	if m["control"] != "" {
		r.Control, err = parseOrigin(m["control"])
		h.keep("control", err)
	}
	r.Parent, err = parseParent(m["parent"], m["held"])
	h.keep("parent", err)
	if r.Name == "" || r.Head == "" || r.Status == "" {
		h.err = fmt.Errorf("record: a field is missing: %w", eventcodec.ErrCorrupt)
	}
	return r, h.err
}
