package history

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Element is one unread input of an instance in its inbox:
//
//	id [space seal] \n time \n body
//
// The process that pushes the element makes the id: ingest from the position of the message in the stream, a worker from effect
// id and token. A commit names the ids that it pops. The time is that of the input (Unix ms, decimal digits): of the message, or
// of the ack script, by the clock of Redis. The body is the input as Encode wrote it. The script ack.lua of pkg/lease builds the
// same.
type Element struct {
	ID   string // never empty, no newline
	At   int64  // Unix milliseconds
	Body []byte
}

// unsealed returns the id without the seal, which errors and logs must not contain.
func unsealed(id string) string {
	id, _, _ = strings.Cut(id, " ")
	return id
}

// MaxDoorbellElement is the size of the largest element that a doorbell carries, in bytes.
const MaxDoorbellElement = 4 << 10

// Encode returns the bytes that are pushed.
func (e Element) Encode() []byte {
	b := make([]byte, 0, len(e.ID)+len(e.Body)+22)
	b = append(b, e.ID...)
	b = append(b, '\n')
	b = strconv.AppendInt(b, e.At, 10)
	b = append(b, '\n')
	return append(b, e.Body...)
}

// ParseElement splits an element into its parts. The error matches ErrCorrupt. Body shares the bytes of b.
func ParseElement(b []byte) (Element, error) {
	id, rest, ok := bytes.Cut(b, []byte{'\n'})
	if !ok || len(id) == 0 {
		return Element{}, fmt.Errorf("inbox element of %d bytes without id: %w", len(b), ErrCorrupt)
	}
	at, body, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok {
		return Element{}, fmt.Errorf("inbox element %.60q without body: %w", unsealed(string(id)), ErrCorrupt)
	}
	ms, err := strconv.ParseInt(string(at), 10, 64)
	if err != nil {
		return Element{}, fmt.Errorf("inbox element %.60q with a time of %d bytes: %w", unsealed(string(id)), len(at), ErrCorrupt)
	}
	return Element{ID: string(id), At: ms, Body: body}, nil
}

// Event decodes the body. The event has the time of the element, and no id yet: its place in a history determines it.
func (e Element) Event() (Event, error) {
	ev, err := Decode(0, e.Body)
	if err != nil {
		return nil, fmt.Errorf("inbox element %.60s: %w", unsealed(e.ID), err)
	}
	ev.Meta().At = e.At
	return ev, nil
}
