package queue

import (
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/wire"
)

// LimitNoticeKind is what a LimitNotice reports.
type LimitNoticeKind uint8

// The kinds of notice.
const (
	LimitGranted  LimitNoticeKind = 1 // the member was admitted
	LimitTimedOut LimitNoticeKind = 2 // its maximum wait is over, and it was rejected
	LimitCleared  LimitNoticeKind = 3 // an operator has cleared the waiters
	LimitSweep    LimitNoticeKind = 4 // the limit needs a sweep; there is no Member
)

// LimitNotice is a message from a limit to the owner of a member's instance or, LimitSweep, to the owner of the partition that the
// name of the limit hashes to. A lost one is repeated by the sweep.
type LimitNotice struct {
	Kind   LimitNoticeKind
	Gate   string
	Member string // as package limiter encodes it
	At     int64  // Unix ms, by the clock of the limit
}

// SendLimitNotices sends notices of limits to the owner of a partition. The error need not be handled: the sweep repeats them.
func (c *signals) SendLimitNotices(partition int, ws []LimitNotice) error {
	return inParts(ws, func(w LimitNotice) int { return len(w.Gate) + len(w.Member) + 24 }, func(part []LimitNotice) error {
		return c.send(c.subj.limit(partition), encodeList(part, wireLimitNotice))
	})
}

// OnLimitNotices calls fn for the notices to a partition, in order. A notice may be forged: it is a reason to check, not a fact.
// Kinds that this build does not know are passed on.
func (c *signals) OnLimitNotices(partition int, fn func([]LimitNotice)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.limit(partition), func(m *nats.Msg) {
		ws, err := decodeList("limit notice", m.Data, wireLimitNotice)
		if err != nil {
			c.ignore(m, err)
			return
		}
		fn(ws)
	})
}

func wireLimitNotice(c *wire.Codec, x *LimitNotice) {
	c.Record(func(c *wire.Codec) {
		wire.Number(c, &x.Kind)
		c.String(&x.Gate)
		c.String(&x.Member)
		c.Int(&x.At)
	})
}
