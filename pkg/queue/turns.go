package queue

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

// The messages between orchestrators of which one has code that another lacks: see package internal/pool. Each may be lost, repeated or
// forged. A message without a member that listens is answered by the server, with an empty body.

// ServeCode answers those that look for an orchestration, with what fn returns, until Stop: for one version of it, or, with newest, for
// those that take any. One of the members that have it receives a request. fn must not block.
func (c *requests) ServeCode(name, version string, newest bool, fn func() []byte) (*Subscription, error) {
	return subscribeGroup(c.nc, c.subj.code(name, version, newest), "pawl", func(m *nats.Msg) {
		if err := c.AnswerMember(m.Reply, fn()); err != nil {
			c.ignore(m, err)
		}
	})
}

// FindCode looks for a member that has an orchestration; the answer goes to reply.
func (c *requests) FindCode(name, version string, newest bool, reply string) error {
	return c.ask(c.subj.code(name, version, newest), reply, nil)
}

// AddressOf returns the address of a member: a token of subjects.
func AddressOf(member string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(member))
	return strconv.FormatUint(h.Sum64(), 36)
}

// MemberGone reports whether the server has answered that nothing listens at the address of a member. Without an answer within a second,
// or before ctx ends, it is false.
func (c *requests) MemberGone(ctx context.Context, member string) bool {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	_, err := c.nc.RequestWithContext(ctx, c.subj.turn(AddressOf(member)), nil)
	return errors.Is(err, nats.ErrNoResponders)
}

const goneTimeout = time.Second

// ServeTurns calls fn for each part of a message to this member, at its address, until Stop, in order; Stop lets parts in transit arrive, for
// nothing would answer them. fn must not block, and returns why a part is counted as malformed, if it is. An empty message asks only whether
// the member listens.
func (c *requests) ServeTurns(at string, fn func(reply string, part []byte) error) (*Subscription, error) {
	s, err := subscribe(c.nc, c.subj.turn(at), func(m *nats.Msg) {
		if len(m.Data) == 0 {
			return
		}
		if err := fn(m.Reply, m.Data); err != nil {
			c.ignore(m, err)
		}
	})
	if err != nil {
		return nil, err
	}
	s.before = func() { s.drain(requestDrain) }
	return s, nil
}

// SendTurn sends a part of a message to a member; the answer goes to reply.
func (c *requests) SendTurn(at, reply string, part []byte) error {
	return c.ask(c.subj.turn(at), reply, part)
}

// AnswerMember answers a member. Beside the subjects of RepliesTo it may be in an inbox like those of this connection: orchestrators have
// the same prefix.
func (c *requests) AnswerMember(to string, part []byte) error {
	if !c.RepliesTo(to) && !strings.HasPrefix(to, inboxPrefix(c.nc)) {
		return fmt.Errorf("%w: reply subject of %d bytes", ErrMalformed, len(to))
	}
	return c.answer(to, part)
}

func (c *link) ask(subject, reply string, data []byte) error {
	if !c.nc.IsConnected() {
		return ErrDisconnected
	}
	if err := checkSubject(subject); err != nil {
		return err
	}
	if err := c.nc.PublishRequest(subject, reply, data); err != nil {
		return fmt.Errorf("queue: publish to %s: %w", subject, err)
	}
	return nil
}
