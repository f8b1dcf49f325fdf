package request

import "github.com/pawlrun/pawl/internal/wire"

// Start asks what has become of a start. Reply: StartState.
type Start struct {
	Instance string
	Seq      uint64 // its place in INPUTS; 0: whether there is an instance, whichever start it is of
	ID       string // of its message: an earlier copy counts, too
	Accepted uint64 // the answer is for a store that has all inputs up to this place; 0: as it is
	Restart  bool   // it takes the id of an instance that has not ended
}

func (*Start) operation() operation { return opStart }
func (q *Start) fields(c *wire.Codec) {
	c.String(&q.Instance)
	c.Uint(&q.Seq)
	c.String(&q.ID)
	c.Uint(&q.Accepted)
	c.Bool(&q.Restart)
}

// StartState is the reply to Start.
type StartState struct{ State StartStatus }

func (r *StartState) fields(c *wire.Codec) { wire.Number(c, &r.State) }

// StartStatus is what has become of a start.
type StartStatus uint8

// The states.
const (
	StartUnread StartStatus = 0 // it is in the stream or in the inbox
	StartBegun  StartStatus = 1 // the instance is there
	StartTaken  StartStatus = 2 // the instance is that of another start
	StartGone   StartStatus = 3 // there is no instance, and the start is not unread
)
