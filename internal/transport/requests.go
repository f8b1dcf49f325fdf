package transport

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
	requestTimeout  = 5 * time.Second // timeout of a Request whose context has no deadline
	requestDrain    = 250 * time.Millisecond
	requestParallel = 16 // concurrent requests of one partition
)

// Access is the permission that a request requires. It is the last token of the subject.
type Access uint8

// The permissions. AccessAdmin includes AccessRead.
const (
	AccessRead  Access = 1 // results, statuses, histories, lists, limits
	AccessAdmin Access = 2 // clearing limits, changing policies
)

// String returns the token in the subject.
func (a Access) String() string {
	if a == AccessRead {
		return "read"
	}
	return "admin"
}

func accessOf(subject string) Access {
	if strings.HasSuffix(subject, "."+AccessAdmin.String()) {
		return AccessAdmin
	}
	return AccessRead
}

// Request sends a request to the owner of a partition and returns the body of its reply. Errors: ErrNoOwner if currently no process owns
// the partition; ErrTimeout if ctx ends (without a deadline: after 5 s); ErrPermission.
func (c *requests) Request(ctx context.Context, partition int, access Access, body []byte) ([]byte, error) {
	if c.unjoined != nil {
		return nil, fmt.Errorf("queue: request: number of partitions unknown: %w", c.unjoined)
	}
	if partition < 0 || partition >= c.parts {
		return nil, fmt.Errorf("queue: request to partition %d: there are %d", partition, c.parts)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	subject := c.subj.request(partition, access)
	allowed, settle := c.whileAllowed(ctx, subject)
	m, err := c.nc.RequestWithContext(allowed, subject, body)
	switch err = settle(err); {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, &NoOwnerError{Namespace: c.opts.Namespace, Partition: partition}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: owner of partition %d: %w", ErrTimeout, partition, err)
	case err != nil:
		return nil, fmt.Errorf("queue: request to partition %d: %w", partition, err)
	}
	return m.Data, nil
}

// ServeRequests answers the requests to a partition until Stop. fn is called for each on its own goroutine, at most 16 concurrently, with
// the permission that the subject of the request requires. It returns the body of the reply; with an error, the request is counted and
// logged as malformed. Stop lets requests that this process has received finish for up to 250 ms; then it cancels ctx, and waits.
func (c *requests) ServeRequests(partition int, fn func(ctx context.Context, access Access, body []byte) ([]byte, error)) (*Subscription, error) {
	s, err := c.serve(c.subj.requestAny(partition), "", requestParallel, func(ctx context.Context, m *nats.Msg) {
		body, err := fn(ctx, accessOf(m.Subject), m.Data)
		if err != nil {
			c.ignore(m, err)
		}
		c.reply(m, body)
	})
	if err != nil {
		return nil, err
	}
	cancel := s.before
	s.before = func() {
		s.drain(requestDrain)
		cancel()
	}
	return s, nil
}

// serve calls fn for each message on a goroutine of its own, at most limit concurrently, until Stop, which cancels the context of fn and
// waits. Of the members of a group one receives each message; an empty group means none.
func (c *requests) serve(subject, group string, limit int, fn func(ctx context.Context, m *nats.Msg)) (*Subscription, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	var running sync.WaitGroup
	slots := make(chan struct{}, limit)
	s, err := subscribeGroup(c.nc, subject, group, func(m *nats.Msg) {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			fn(ctx, m)
		})
	})
	if err != nil {
		cancel()
		return nil, err
	}
	s.before, s.after = cancel, running.Wait
	return s, nil
}

// reply answers a request, if its reply subject is allowed.
func (c *requests) reply(m *nats.Msg, body []byte) {
	if !c.RepliesTo(m.Reply) {
		return
	}
	if err := c.answer(m.Reply, body); err != nil {
		c.log.Debug("reply not sent", "subject", m.Subject, "error", err)
	}
}

// Answer publishes an answer to a reply subject. The error is ErrMalformed if the subject is not allowed.
func (c *requests) Answer(to string, body []byte) error {
	if !c.RepliesTo(to) {
		return fmt.Errorf("%w: reply subject %q", ErrMalformed, text.Cut(to, maxHeader))
	}
	return c.send(to, body)
}

// answer publishes the reply to a request, on the subject that the requester has chosen.
func (c *link) answer(to string, body []byte) error {
	if !safeReply(to) {
		return fmt.Errorf("%w: reply subject %q", ErrMalformed, text.Cut(to, maxHeader))
	}
	return c.send(to, body)
}

// Inbox receives answers, each on a subject with its own token.
type Inbox struct {
	*Subscription
	prefix string
}

// Subject returns the reply subject of a token, which the caller chooses. It must be a single token of a subject.
func (i *Inbox) Subject(token string) string { return i.prefix + token }

// OnAnswers opens an inbox and calls fn for every answer in it, in order. An answer for which fn returns an error is counted as malformed.
func (c *requests) OnAnswers(fn func(token string, body []byte) error) (*Inbox, error) {
	prefix := c.nc.NewInbox() + "."
	c.answers.Store(prefix + "*")
	s, err := onMessage(c.link, prefix+"*", func(m *nats.Msg) error { return fn(m.Subject[len(prefix):], m.Data) })
	if err != nil {
		return nil, err
	}
	return &Inbox{Subscription: s, prefix: prefix}, nil
}

// ServeWorkers answers requests for the workers of the namespace until Stop. fn must not block.
func (c *requests) ServeWorkers(fn func() []byte) (*Subscription, error) {
	return subscribe(c.nc, c.subj.workers(), func(m *nats.Msg) {
		if c.RepliesTo(m.Reply) {
			c.reply(m, fn())
		}
	})
}

// ServeDrain calls fn for each request to drain a worker of the namespace, until Stop; fn reports whether the worker is its own. It must
// not block.
func (c *requests) ServeDrain(fn func(worker string) bool) (*Subscription, error) {
	return subscribe(c.nc, c.subj.drain(), func(m *nats.Msg) {
		if c.RepliesTo(m.Reply) && fn(string(m.Data)) {
			c.reply(m, []byte("+OK"))
		}
	})
}

// RequestDrain requests that a worker take no more tasks. The error is that of ctx if no worker with that name answers, ErrDisconnected, or
// ErrPermission.
func (c *requests) RequestDrain(ctx context.Context, worker string) error {
	if !c.nc.IsConnected() {
		return ErrDisconnected
	}
	ctx, settle := c.whileAllowed(ctx, c.subj.drain())
	_, err := c.nc.RequestWithContext(ctx, c.subj.drain(), []byte(worker))
	return settle(err)
}

// RequestWorkers sends a request to all workers of the namespace and calls fn for every reply that arrives within wait, in order. The
// number of workers is unknown, so slower replies are missed. If there is no worker, it returns immediately. The error is ErrDisconnected,
// ErrPermission, or the cause of ctx.
func (c *requests) RequestWorkers(ctx context.Context, wait time.Duration, fn func(body []byte) error) error {
	if !c.nc.IsConnected() {
		return ErrDisconnected
	}
	inbox := c.nc.NewInbox()
	replies := make(chan *nats.Msg, 256)
	sub, err := c.nc.ChanSubscribe(inbox, replies)
	if err != nil {
		return fmt.Errorf("queue: request to workers: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, settle := c.whileAllowed(ctx, c.subj.workers())
	defer func() { _ = settle(nil) }()
	if err := c.nc.PublishRequest(c.subj.workers(), inbox, nil); err != nil {
		return fmt.Errorf("queue: request to workers: %w", err)
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		select {
		case m := <-replies:
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil
			}
			if err := fn(m.Data); err != nil {
				c.ignore(m, err)
			}
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
