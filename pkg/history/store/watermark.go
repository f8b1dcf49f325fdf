package store

import (
	"strconv"
	"strings"
)

// Watermark is a place in the decisions of an instance, over all its executions: the last event that produced a message, or the
// last one whose messages are in the inputs stream. The zero Watermark is before everything.
type Watermark struct {
	Execution uint64
	Event     uint64 // id in the history of the execution
}

// Before reports whether m is before n.
func (m Watermark) Before(n Watermark) bool {
	return m.Execution < n.Execution || m.Execution == n.Execution && m.Event < n.Event
}

// String returns the text of the record's field, such as 3.17; "" for the zero Watermark.
func (m Watermark) String() string {
	if m == (Watermark{}) {
		return ""
	}
	return num(m.Execution) + "." + num(m.Event)
}

func parseWatermark(text string) (Watermark, error) {
	if text == "" {
		return Watermark{}, nil
	}
	execution, event, err := parsePair(text)
	return Watermark{Execution: execution, Event: event}, err
}

// HasPendingMessages reports whether the inputs stream may lack a message of the instance.
func (r *Record) HasPendingMessages() bool { return r.Published.Before(r.Produced) }

// parsePair parses two numbers with a dot between them.
func parsePair(text string) (first, second uint64, err error) {
	a, b, _ := strings.Cut(text, ".")
	if first, err = strconv.ParseUint(a, 10, 64); err == nil {
		second, err = strconv.ParseUint(b, 10, 64)
	}
	return first, second, err
}
