package queue

import (
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/wire"
)

// WordKind is what a gate has to tell.
type WordKind uint8

// The kinds of word.
const (
	WordGranted  WordKind = 1 // the member has been let in
	WordTimedOut WordKind = 2 // it has waited too long, and was turned away
	WordCleared  WordKind = 3 // somebody has cleared the queue
	WordLook     WordKind = 4 // the gate wants to be looked at; there is no Member
)

// Word is what a gate tells the owner of a member's instance or, WordLook, what somebody tells
// the owner of the partition that the gate's name falls into. One that is lost is said again by
// the sweep.
type Word struct {
	Kind   WordKind
	Gate   string
	Member string // as package gate writes it
	At     int64  // by the gate's clock, Unix ms: it was so then
}

// SendWords tells the owner of a partition what gates have to say. The error need not be
// handled: the sweep says the same.
func (c *Conn) SendWords(partition int, ws []Word) error {
	return inParts(ws, func(w Word) int { return len(w.Gate) + len(w.Member) + 24 }, func(part []Word) error {
		return c.send(c.subj.word(partition), encodeList(part, wireWord))
	})
}

// OnWords calls fn for every word to a partition, in order. A word may be forged: it says
// where to look, not what is so. Kinds that this build does not know are passed on.
func (c *Conn) OnWords(partition int, fn func([]Word)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.word(partition), func(m *nats.Msg) {
		ws, err := decodeList("word", m.Data, wireWord)
		if err != nil {
			c.ignore(m, err)
			return
		}
		fn(ws)
	})
}

func wireWord(c *wire.Codec, x *Word) {
	c.Record(func(c *wire.Codec) {
		wire.Number(c, &x.Kind)
		c.String(&x.Gate)
		c.String(&x.Member)
		c.Int(&x.At)
	})
}
