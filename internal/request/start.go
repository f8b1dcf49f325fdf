package request

import "github.com/pawlrun/pawl/internal/wire"

// Start requests what became of a start. Reply: StartState.
type Start struct {
	Instance string
	Seq      uint64 // sequence of the start in INPUTS; 0: any start of the instance
	ID       string // message id of the start; an earlier copy of the message counts as the same start
	Accepted uint64 // the owner answers only after applying all inputs up to this sequence; 0: it answers at once
	Restart  bool   // the start replaces an instance that has not ended
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

// StartStatus is the state of a start.
type StartStatus uint8

// The states of a start.
const (
	StartUnread StartStatus = 0 // the start is in the stream or in the inbox
	StartBegun  StartStatus = 1 // the start has begun the instance
	StartTaken  StartStatus = 2 // another start has begun the instance
	StartGone   StartStatus = 3 // there is no instance, and the start is neither in the stream nor in the inbox
)
