package eventcodec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// Element is one unread input in the inbox of an instance:
//
//	id [space seal] \n time \n body
//
// The process that pushes the element sets the id: ingest derives it from the stream position of the message, a worker from effect
// id and token. A commit lists the ids that it pops. The time is that of the input (Unix ms, decimal digits): the time of the
// message, or the clock of Redis in the ack script. The body is the input as Encode wrote it. The script ack.lua of internal/leases
// builds elements in the same format.
type Element struct {
	ID   string // never empty, no newline
	At   int64  // Unix milliseconds
	Body []byte
}

// unsealed returns the id without its seal, which must not appear in errors and logs.
func unsealed(id string) string {
	id, _, _ = strings.Cut(id, " ")
	return id
}

// MaxDoorbellElement is the maximum size of an element that a doorbell carries, in bytes.
const MaxDoorbellElement = 4 << 10

// Encode returns the bytes that are pushed to the inbox.
func (e Element) Encode() []byte {
	b := make([]byte, 0, len(e.ID)+len(e.Body)+22)
	b = append(b, e.ID...)
	b = append(b, '\n')
	b = strconv.AppendInt(b, e.At, 10)
	b = append(b, '\n')
	return append(b, e.Body...)
}

// ParseElement splits an element into its parts. The error matches ErrCorrupt. Body shares memory with b.
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

// Event decodes the body. The event has the time of the element and id 0: its id is assigned when it is added to a history.
func (e Element) Event() (history.Event, error) {
	ev, err := Decode(0, e.Body)
	if err != nil {
		return nil, fmt.Errorf("inbox element %.60s: %w", unsealed(e.ID), err)
	}
	ev.Meta().At = e.At
	return ev, nil
}
