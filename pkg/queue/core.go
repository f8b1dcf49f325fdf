package queue

import (
	"errors"
	"fmt"

	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Bell reports that an activity has ended and its completion is in an inbox that was empty before.
type Bell struct {
	Instance string
	Effect   string // effect id of the activity
	Element  []byte // the element as it was pushed, if it is at most history.MaxRung; otherwise nil
	Proof    string // that Redis has made: see Tenure.Proves of package store
}

// Hint says that a lease of the worker was deleted. The worker renews at once; only
// the renewal's answer cancels.
//
// With a Token it is a question instead: whether the worker has the claim with that token. One that it does not have,
// it acknowledges again or gives back; only the script's comparison of the token decides.
type Hint struct {
	Instance            string
	Execution, Activity uint64
	Effect              string
	Reason              cancel.Reason
	By, Text            string
	At                  int64 // Unix milliseconds
	Token               string
}

// NoticeKind is what a Notice is about.
type NoticeKind uint8

// The kinds of notice.
const (
	PartitionReleased NoticeKind = 1 // Partition has no owner any more: whoever should own it may take it
	MemberJoined      NoticeKind = 2
	MemberLeft        NoticeKind = 3
	PolicyChanged     NoticeKind = 4 // a policy was set or deleted: read them again
	ChildrenCancelled NoticeKind = 5 // children were cancelled whose descendants must not begin: read which
)

// Notice hurries the handing over of partitions, and policies. One that is lost costs a look.
type Notice struct {
	Kind      NoticeKind
	Partition int // of PartitionReleased
	Member    string
}

func wireBell(c *wire.Codec, b *Bell) {
	c.Record(func(c *wire.Codec) {
		c.String(&b.Instance)
		c.Bytes(&b.Element)
		c.String(&b.Effect)
		c.String(&b.Proof)
	})
}

func wireHint(c *wire.Codec, h *Hint) {
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

func decodeList[T any](what string, b []byte, item func(*wire.Codec, *T)) (items []T, err error) {
	err = decode(what, b, func(c *wire.Codec) { wire.List(c, &items, item) })
	return items, err
}

func decode(what string, b []byte, fields func(*wire.Codec)) error {
	return Decoded(what, wire.Decode(b, fields))
}

// Decoded is the error of a message that could not be decoded: a *NewerError, or one that matches ErrMalformed. nil stays nil.
func Decoded(what string, err error) error {
	if err == nil {
		return nil
	}
	if newer, ok := errors.AsType[*wire.VersionError](err); ok {
		return &NewerError{What: what, Version: newer.Version, Max: 1}
	}
	return fmt.Errorf("%w: %s: %w", ErrMalformed, what, err)
}
