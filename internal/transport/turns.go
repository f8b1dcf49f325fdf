package transport

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Messages between an orchestrator that lacks code and one that has it: see package internal/pool. Each may be lost, repeated or forged. If
// no member listens, the server answers a message with an empty body.

// ServeCode answers searches for an orchestration with the result of fn, until Stop: for one version of it or, with newest, searches for any
// version. Each search is received by one of the members that have it. fn must not block.
func (c *requests) ServeCode(name, version string, newest bool, fn func() []byte) (*Subscription, error) {
	return subscribeGroup(c.nc, c.subj.code(name, version, newest), "pawl", func(m *nats.Msg) {
		if err := c.AnswerMember(m.Reply, fn()); err != nil {
			c.ignore(m, err)
		}
	})
}

// FindCode searches for a member that has an orchestration; the answer is sent to reply.
func (c *requests) FindCode(name, version string, newest bool, reply string) error {
	return c.request(c.subj.code(name, version, newest), reply, nil)
}

// AddressOf returns the address of a member, which is a token of subjects.
func AddressOf(member string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(member))
	return strconv.FormatUint(h.Sum64(), 36)
}

// MemberGone reports whether the server has answered that no subscriber listens at the address of a member. It is false without an answer
// within a second, or before ctx ends.
func (c *requests) MemberGone(ctx context.Context, member string) bool {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	_, err := c.nc.RequestWithContext(ctx, c.subj.turn(AddressOf(member)), nil)
	return errors.Is(err, nats.ErrNoResponders)
}

const goneTimeout = time.Second

// ServeTurns calls fn for each part of a message to this member, at its address, in order, until Stop, which lets parts in transit arrive,
// because no other process would answer them. fn must not block; a part for which it returns an error is counted as malformed. An empty
// message only tests whether the member listens.
func (c *requests) ServeTurns(at string, fn func(reply string, part []byte) error) (*Subscription, error) {
	s, err := onMessage(c.link, c.subj.turn(at), func(m *nats.Msg) error {
		if len(m.Data) == 0 {
			return nil
		}
		return fn(m.Reply, m.Data)
	})
	if err != nil {
		return nil, err
	}
	s.before = func() { s.drain(requestDrain) }
	return s, nil
}

// SendTurn sends a part of a message to a member; the answer is sent to reply.
func (c *requests) SendTurn(at, reply string, part []byte) error {
	return c.request(c.subj.turn(at), reply, part)
}

// AnswerMember answers a member. In addition to the subjects of RepliesTo, the subject may be in an inbox with the prefix of this
// connection, which all orchestrators share.
func (c *requests) AnswerMember(to string, part []byte) error {
	if !c.RepliesTo(to) && !strings.HasPrefix(to, inboxPrefix(c.nc)) {
		return fmt.Errorf("%w: reply subject of %d bytes", ErrMalformed, len(to))
	}
	return c.answer(to, part)
}
