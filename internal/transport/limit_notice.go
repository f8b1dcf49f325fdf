package transport

import (
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
)

// SendLimitNotices sends notices of limits to the owner of a partition. The error need not be handled: the sweep repeats the notices.
func (c *signals) SendLimitNotices(partition int, ws []message.LimitNotice) error {
	return inParts(ws, func(w message.LimitNotice) int { return len(w.Limit) + len(w.Member) + 24 }, func(part []message.LimitNotice) error {
		return c.send(c.subj.limit(partition), encodeList(part, wireLimitNotice))
	})
}

// OnLimitNotices calls fn for the notices to a partition, in order. A notice may be forged: it is a reason to check, not a fact.
func (c *signals) OnLimitNotices(partition int, fn func([]message.LimitNotice)) (*Subscription, error) {
	return onMessage(c.link, c.subj.limit(partition), func(m *nats.Msg) error {
		ws, err := decodeList("limit notice", m.Data, wireLimitNotice)
		if err == nil {
			fn(ws)
		}
		return err
	})
}

func wireLimitNotice(c *wire.Codec, x *message.LimitNotice) {
	c.Record(func(c *wire.Codec) {
		c.String(&x.Limit)
		c.String(&x.Member)
		c.Int(&x.At)
	})
}
