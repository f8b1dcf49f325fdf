package store

import (
	"strconv"
	"strings"
)

// Mark is a place in what an instance has decided, over all its executions: up to it the inputs
// stream has the messages, or from it the last one is owed. The zero Mark stands before everything.
type Watermark struct {
	Execution uint64
	Event     uint64 // id in the history of the execution
}

// Less reports whether m stands before n.
func (m Watermark) Before(n Watermark) bool {
	return m.Execution < n.Execution || m.Execution == n.Execution && m.Event < n.Event
}

// String gives the text of the record's field, such as 3.17; the zero Mark has none.
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

// Owes reports whether the stream is not known to have every message of the instance.
func (r *Record) HasPendingMessages() bool { return r.Published.Before(r.Produced) }

// parsePair reads two numbers with a dot between them.
func parsePair(text string) (first, second uint64, err error) {
	a, b, _ := strings.Cut(text, ".")
	if first, err = strconv.ParseUint(a, 10, 64); err == nil {
		second, err = strconv.ParseUint(b, 10, 64)
	}
	return first, second, err
}
