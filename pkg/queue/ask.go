package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/text"
)

const (
	askTimeout  = 5 * time.Second // of an Ask whose context has no deadline
	askDrain    = 250 * time.Millisecond
	askParallel = 16 // requests of one partition that are served at a time
)

// Ask puts a request to the owner of a partition. If nobody owns it at the moment
// the error is ErrNoOwner; if the owner does not answer in time it is ErrTimeout. A
// Reply with a Problem is not an error of Ask.
func (c *Conn) Ask(ctx context.Context, partition int, a Ask) (Reply, error) {
	if c.unjoined != nil {
		return Reply{}, fmt.Errorf("queue: ask: the number of partitions is not known: %w", c.unjoined)
	}
	if partition < 0 || partition >= c.parts {
		return Reply{}, fmt.Errorf("queue: ask partition %d: there are %d", partition, c.parts)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askTimeout)
		defer cancel()
	}
	subject := c.subj.ask(partition, a.Op.Access())
	allowed, settle := c.whileAllowed(ctx, subject)
	m, err := c.nc.RequestWithContext(allowed, subject, a.encode())
	switch err = settle(err); {
	case errors.Is(err, nats.ErrNoResponders):
		return Reply{}, &NoOwnerError{Namespace: c.opts.Namespace, Partition: partition}
	case errors.Is(err, context.DeadlineExceeded):
		return Reply{}, fmt.Errorf("%w: the owner of partition %d does not answer: %w", ErrTimeout, partition, err)
	case err != nil:
		return Reply{}, fmt.Errorf("queue: ask partition %d: %w", partition, err)
	}
	var r Reply
	if err := decode("reply", m.Data, r.wire); err != nil {
		return Reply{}, err
	}
	return r, nil
}

// Access is which permission a request requires. It is the last token of its subject.
type Access uint8

// The accesses. An operation that is not known requires AccessAdmin.
const (
	AccessRead  Access = 1 // results, statuses, histories, listings, how gates stand
	AccessAdmin Access = 2 // clears a gate, changes policies
)

// String is the token in the subject.
func (a Access) String() string {
	if a == AccessRead {
		return "read"
	}
	return "admin"
}

// Access is the permission that the operation requires.
func (o Op) Access() Access {
	switch o {
	case OpAwait, OpDescribe, OpHistory, OpList, OpStuck, OpStatus, OpGates, OpGate, OpWaiters, OpPolicies, OpCount:
		return AccessRead
	case OpClear, OpSetPolicy, OpDeletePolicy:
		return AccessAdmin
	default:
		return AccessAdmin
	}
}

// permits reports whether a request for the operation may come on the subject. What requires less may.
func permits(subject string, o Op) bool {
	token := subject[strings.LastIndexByte(subject, '.')+1:]
	return token == AccessAdmin.String() || token == AccessRead.String() && o.Access() == AccessRead
}

// ServeAsks answers the requests to a partition, until Stop: fn is called for each
// on a goroutine of its own, at most 16 at a time. Stop first has what was already
// sent to this process served, for 250 ms at most; then ctx is done, and Stop waits. A
// request that does not decode is answered with a Problem.
func (c *Conn) ServeAsks(partition int, fn func(ctx context.Context, a Ask) Reply) (*Subscription, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	var running sync.WaitGroup
	places := make(chan struct{}, askParallel)
	s, err := subscribe(c.nc, c.subj.askAny(partition), func(m *nats.Msg) {
		var a Ask
		err := decode("request", m.Data, a.wire)
		if err == nil && !permits(m.Subject, a.Op) {
			err = fmt.Errorf("%w: request %d on %s, want %s", ErrMalformed, a.Op, m.Subject, c.subj.ask(partition, a.Op.Access()))
		}
		if err != nil {
			c.ignore(m, err)
			c.reply(m, Reply{Problem: &Problem{Code: ProblemBadAsk, Message: err.Error()}})
			return
		}
		if !c.repliesTo(a.ReplyTo) {
			a.ReplyTo = ""
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			c.reply(m, fn(ctx, a))
		})
	})
	if err != nil {
		cancel()
		return nil, err
	}
	s.before = func() {
		s.drain(askDrain) // a request that the server has sent us already would wait in vain
		cancel()
	}
	s.after = running.Wait
	return s, nil
}

func (c *Conn) reply(m *nats.Msg, r Reply) {
	if !c.repliesTo(m.Reply) {
		return
	}
	body := r.encode()
	if int64(len(body)) > c.nc.MaxPayload() {
		r = Reply{Problem: &Problem{Code: ProblemInternal,
			Message: fmt.Sprintf("the answer has %d bytes, the NATS server takes %d: ask for less at a time", len(body), c.nc.MaxPayload())}}
		body = r.encode()
	}
	if err := c.answer(m.Reply, body); err != nil {
		c.log.Debug("a request can not be answered", "subject", m.Subject, "error", err)
	}
}

// Answer sends an answer to where somebody waits for it. The error need not be
// handled: who waits asks again.
func (c *Conn) Answer(to string, a Answer) error {
	if !c.repliesTo(to) {
		return fmt.Errorf("%w: reply subject %q", ErrMalformed, text.Cut(to, maxHeader))
	}
	return c.send(to, a.encode())
}

// answer sends the reply to a request, on the subject that the requester has named.
func (c *Conn) answer(to string, body []byte) error {
	if !safeReply(to) {
		return fmt.Errorf("%w: reply subject %q", ErrMalformed, text.Cut(to, maxHeader))
	}
	return c.send(to, body)
}

// Inbox receives answers on subjects of its own, one a token.
type Inbox struct {
	*Subscription
	prefix string
}

// Subject is where an answer with this token is to be sent. A token is one token of
// a subject, chosen by the caller.
func (i *Inbox) Subject(token string) string { return i.prefix + token }

// OnAnswers opens an inbox and calls fn for every answer in it, in order.
func (c *Conn) OnAnswers(fn func(token string, a Answer)) (*Inbox, error) {
	prefix := c.nc.NewInbox() + "."
	c.answers.Store(prefix + "*")
	s, err := subscribe(c.nc, prefix+"*", func(m *nats.Msg) {
		a, err := decodeAnswer(m.Data)
		if err != nil {
			c.ignore(m, err)
			return
		}
		fn(m.Subject[len(prefix):], a)
	})
	if err != nil {
		return nil, err
	}
	return &Inbox{Subscription: s, prefix: prefix}, nil
}
