package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/wire"
)

// UpdateReceived is a request to the instance that requires an answer. It is recorded when it is taken from the inbox, whether or not
// code receives it. An update that a validator rejects, or whose deadline has passed, is answered without being recorded.
type UpdateReceived struct {
	Head     `msgpack:"-"`
	Name     string
	UpdateID string // chosen by the sender, unique among the updates of the name; never empty
	Payload  Payload
	By       string
	Reply    string // subject for the answer; empty: none is sent
	Deadline int64  // code does not receive the update after this time, Unix ms; 0: none
}

// Key identifies the update among all updates of its instance.
func (e *UpdateReceived) Key() string { return UpdateKey(e.Name, e.UpdateID) }

// UpdateKey returns the key of an update. Names contain no spaces.
func UpdateKey(name, id string) string { return name + " " + id }

// UpdateAnswered answers an update. Updates that are open at the end of an execution have no such event: the next execution receives
// them, or they are answered with CodeEnded.
type UpdateAnswered struct {
	Head    `msgpack:"-"`
	Update  uint64   // id of the UpdateReceived
	Result  Payload  // set if Failure is nil
	Failure *Failure // reason of the rejection; nil: not rejected
}

func (e *UpdateReceived) fields(c *wire.Codec) {
	c.String(&e.Name)
	c.String(&e.UpdateID)
	payload(c, &e.Payload)
	c.String(&e.By)
	c.String(&e.Reply)
	c.Int(&e.Deadline)
}

func (e *UpdateAnswered) fields(c *wire.Codec) {
	c.Uint(&e.Update)
	outcome(c, &e.Result, &e.Failure)
}

// updates contains the open updates (received and not answered), by event id.
type updates map[uint64]*UpdateReceived

// Update returns an open update, or nil.
func (u updates) Update(id uint64) *UpdateReceived { return u[id] }

// UpdateLen returns the number of open updates.
func (u updates) UpdateLen() int { return len(u) }

// OpenUpdates returns the updates that were received and not answered, in the order in which they were received.
func (u updates) OpenUpdates() []*UpdateReceived {
	if len(u) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(u), func(a, b *UpdateReceived) int { return cmp.Compare(a.ID, b.ID) })
}

func (u *updates) applyUpdate(e Event) {
	switch e := e.(type) {
	case *UpdateReceived:
		if *u == nil {
			*u = make(updates)
		}
		(*u)[e.ID] = e
	case *UpdateAnswered:
		delete(*u, e.Update)
	}
}

func (u updates) updateViolation(e *UpdateAnswered) string {
	if u[e.Update] == nil {
		return fmt.Sprintf("answers update %d, which is not open", e.Update)
	}
	return ""
}

// UpdateAnswer is the answer to an update as the store keeps it: either a result or a failure.
type UpdateAnswer struct {
	At      int64 // Unix ms
	Result  Payload
	Failure *Failure
}

// Encode returns the bytes of the answer.
func (a UpdateAnswer) Encode() ([]byte, error) {
	return Encode(&UpdateAnswered{Head: Head{At: a.At}, Result: a.Result, Failure: a.Failure})
}

// DecodeUpdateAnswer reads the output of Encode. The error matches ErrCorrupt or ErrNewerVersion.
func DecodeUpdateAnswer(b []byte) (UpdateAnswer, error) {
	e, err := Decode(0, b)
	if err != nil {
		return UpdateAnswer{}, err
	}
	a, ok := e.(*UpdateAnswered)
	if !ok {
		return UpdateAnswer{}, fmt.Errorf("an answer of kind %d: %w", e.Kind(), ErrCorrupt)
	}
	return UpdateAnswer{At: a.At, Result: a.Result, Failure: a.Failure}, nil
}
