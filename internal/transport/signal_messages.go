package transport

import (
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/wire"
)

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// The kinds of notice.
const (
	PartitionReleased NoticeKind = 1 // Partition no longer has an owner
	MemberJoined      NoticeKind = 2
	MemberLeft        NoticeKind = 3
	PolicyChanged     NoticeKind = 4 // a policy was set or deleted
	ChildrenCancelled NoticeKind = 5 // children were cancelled whose descendants must not begin
)

// Notice accelerates the hand-over of partitions and the propagation of policies. A lost one costs a reconcile interval.
type Notice struct {
	Kind      NoticeKind
	Partition int // set for PartitionReleased
	Member    string
}

func wireDoorbell(c *wire.Codec, b *message.Doorbell) {
	c.Record(func(c *wire.Codec) {
		c.String(&b.Instance)
		c.Bytes(&b.Element)
		c.String(&b.Effect)
		c.String(&b.Proof)
	})
}

func wireHint(c *wire.Codec, h *message.Hint) {
	c.Record(func(c *wire.Codec) {
		c.String(&h.Instance)
		c.Uint(&h.Execution)
		c.Uint(&h.Activity)
		c.String(&h.Effect)
		wire.Number(c, &h.Reason)
		c.String(&h.By)
		c.String(&h.Text)
		c.Int(&h.At)
		c.String(&h.Token)
	})
}

func (n *Notice) fields(c *wire.Codec) {
	wire.Number(c, &n.Kind)
	c.Count(&n.Partition)
	c.String(&n.Member)
}

// encodeList encodes a message that is a list.
func encodeList[T any](items []T, item func(*wire.Codec, *T)) []byte {
	return wire.Encode(func(c *wire.Codec) { wire.List(c, &items, item) })
}

// decodeList decodes a message that is a list.
func decodeList[T any](what string, b []byte, item func(*wire.Codec, *T)) (items []T, err error) {
	err = decode(what, b, func(c *wire.Codec) { wire.List(c, &items, item) })
	return items, err
}

// decode decodes a message; see Decoded for its errors.
func decode(what string, b []byte, fields func(*wire.Codec)) error {
	return Decoded(what, wire.Decode(b, fields))
}

// Decoded returns the error of a message that could not be decoded: a *NewerError, or one that matches ErrMalformed. It returns nil if err
// is nil.
func Decoded(what string, err error) error {
	if err == nil {
		return nil
	}
	if newer, ok := errors.AsType[*wire.VersionError](err); ok {
		return &NewerError{What: what, Version: newer.Version, Max: 1}
	}
	return fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
}
