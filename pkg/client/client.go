package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlcodec"
)

// Options configure a Client. The zero value is usable.
type Options struct {
	Namespace string // default "default"
	By        string // name of the requester, as histories record it; default: none

	// OwnerTimeout is the time for which a request is repeated while no orchestrator owns the partition, during a hand-over or after a
	// crash. By default a request is repeated until its context ends (for 30 s if that has no deadline). OwnerTimeout also bounds how
	// long a listing waits for an owner, and how long an instance may be unknown to a wait for its status, or for its result after
	// Attach; the default of these is 2 s.
	OwnerTimeout time.Duration

	// RepeatInterval is the interval at which a wait for a result, an answer or a status repeats its request; default 5 s. After a change
	// of the partition's owner the request is repeated within 50 ms.
	RepeatInterval time.Duration

	// Interceptors wrap the publication of every message; the first is the outermost. See Interceptor.
	Interceptors []Interceptor

	// Codec encodes the payloads that the client sends and decodes those that it reads, for example with compression or encryption: see
	// package pawlcodec. Default: none.
	Codec *pawlcodec.Codec

	Logger *slog.Logger // default: nothing is logged
}

// Client is a client of one namespace. Make one with New, and end it with Close. It is safe for concurrent use.
type Client struct {
	requester
	parts

	opts  Options
	inbox *transport.Inbox
	send  Publish // publishes within the interceptors; nil: there are none

	owners    owners
	announced *transport.Subscription
	watching  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// waiting contains the waiters, by the token of their reply subject. The pointers are weak: when the caller drops an Instance, its
	// entry is removed.
	waiting map[string]weak.Pointer[waiter]
}

// parts groups operations of a Client by subject; the others are methods of Client itself.
type parts struct {
	schedules
	policies
	batches
	operators
	fleet
}

type (
	schedules struct{ client *Client }
	policies  struct{ client *Client } // policies and queues of limits
	batches   struct{ client *Client }
	operators struct{ client *Client } // operator requests to one instance
	fleet     struct{ client *Client } // processes and partitions
)

// requester sends requests to the owners of partitions.
type requester struct {
	conn         *transport.Conn
	ownerTimeout time.Duration // 0: until the context of the request ends
	done         chan struct{} // closed by Close
	groups       groups        // partitions by owner, for requests about several partitions
}

// waiter receives one answer.
type waiter struct {
	token   string
	settled chan struct{} // closed when answer is set
	once    sync.Once
	answer  request.Answer
}

func (w *waiter) settle(a request.Answer) {
	w.once.Do(func() {
		w.answer = a
		close(w.settled)
	})
}

// New returns a Client for a namespace. While NATS or JetStream is unavailable, it waits until ctx ends. The error matches
// queue.ErrNoNamespace if no orchestrator has created the namespace yet. The caller closes nc, after Close.
//
// The NATS user needs the permissions to publish inputs and to subscribe to its inbox. Without the permission to read the state of the
// INPUTS stream, a Client can start, send, cancel and purge, and wait for the results of its own starts; every other operation returns an
// error that matches queue.ErrPermission.
func New(ctx context.Context, nc *nats.Conn, o Options) (*Client, error) {
	conn, err := transport.JoinToPublish(ctx, nc, transport.Options{Namespace: o.Namespace, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c, err := newClient(conn, o)
	if err != nil {
		conn.Close()
	}
	return c, err
}

// newClient returns a Client that owns conn. On an error conn remains open.
func newClient(conn *transport.Conn, o Options) (*Client, error) {
	ownerTimeout := o.OwnerTimeout
	if o.OwnerTimeout == 0 {
		o.OwnerTimeout = 2 * time.Second
	}
	if o.RepeatInterval == 0 {
		o.RepeatInterval = 5 * time.Second
	}
	c := &Client{
		requester: requester{conn: conn, ownerTimeout: ownerTimeout, done: make(chan struct{})},
		opts:      o, waiting: make(map[string]weak.Pointer[waiter]),
	}
	c.parts = parts{schedules{c}, policies{c}, batches{c}, operators{c}, fleet{c}}
	c.intercept(o.Interceptors)
	inbox, err := request.OnAnswers(conn, c.answered)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c.inbox = inbox
	if conn.Partitions() > 0 { // 0: no permission to read the number, and so to make requests
		if c.announced, err = conn.OnOwners(c.owners.changed); err != nil {
			inbox.Stop()
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	status := conn.NATS().StatusChanged(nats.CONNECTED)
	c.watching.Go(func() { c.watch(status) })
	return c, nil
}

// watch makes all waits repeat their requests after the connection was lost and restored.
func (c *Client) watch(status chan nats.Status) {
	defer c.conn.NATS().RemoveStatusListener(status)
	for {
		select {
		case <-c.done:
			return
		case _, open := <-status:
			if !open {
				return
			}
			c.owners.allChanged()
		}
	}
}

// Close closes the Client. All waits end with ErrClosed. It does not close the NATS connection. It may be called more than once.
func (c *Client) Close() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if !first {
		return
	}
	close(c.done)
	c.watching.Wait()
	if c.announced != nil {
		c.announced.Stop()
	}
	c.inbox.Stop()
	c.conn.Close()
}

// newWaiter registers a waiter for an answer.
func (c *Client) newWaiter() *waiter {
	w := &waiter{token: nuid.Next(), settled: make(chan struct{})}
	c.mu.Lock()
	c.waiting[w.token] = weak.Make(w)
	c.mu.Unlock()
	runtime.AddCleanup(w, c.forget, w.token)
	return w
}

// forget removes the waiter of a token.
func (c *Client) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, token)
}

// answered passes an answer to its waiter.
func (c *Client) answered(token string, a request.Answer) {
	c.mu.Lock()
	p, ok := c.waiting[token]
	delete(c.waiting, token)
	c.mu.Unlock()
	if !ok {
		return
	}
	if w := p.Value(); w != nil {
		w.settle(a)
	}
}

const (
	firstAttempt   = 2 * time.Second  // timeout of the first attempt of a request; it doubles with each further one
	requestTimeout = 30 * time.Second // timeout of a request whose context has no deadline

	minBackoff = 20 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// request sends a request to the owner of a partition and decodes the reply into r. It is repeated while there is no owner, and if it is
// not answered, because an owner that dies or is disconnected loses its outstanding requests.
func (c *requester) request(ctx context.Context, partition int, q request.Request, r request.Reply) error {
	return c.requestWithin(ctx, c.ownerTimeout, partition, q, r)
}

// requestWithin is request with a maximum wait for an owner; 0: until ctx ends.
func (c *requester) requestWithin(ctx context.Context, ownerTimeout time.Duration, partition int, q request.Request, r request.Reply) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	var ownerless <-chan time.Time
	if ownerTimeout > 0 {
		t := time.NewTimer(ownerTimeout)
		defer t.Stop()
		ownerless = t.C
	}
	backoff, timeout := minBackoff, firstAttempt
	var last error // error of the last attempt that ctx did not interrupt
	for {
		err := c.attempt(ctx, timeout, partition, q, r)
		late := errors.Is(err, transport.ErrTimeout)
		switch {
		case !late && !errors.Is(err, ErrNoOwner):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w (last: %w)", ctx.Err(), cmp.Or(last, err))
		case late:
			timeout, last = 2*timeout, err
			continue
		}
		last = err
		select {
		case <-time.After(backoff):
			backoff = min(2*backoff, maxBackoff)
		case <-ownerless:
			return err
		case <-c.done:
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", ctx.Err(), err)
		}
	}
}

// attempt sends a request once.
func (c *requester) attempt(ctx context.Context, timeout time.Duration, partition int, q request.Request, r request.Reply) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := request.Call(ctx, c.conn, partition, q, r)
	if p, ok := errors.AsType[*request.Problem](err); ok {
		return problem(p)
	}
	return err
}

// requestInstance sends a request to the owner of an instance.
func (c *requester) requestInstance(ctx context.Context, id string, q request.Request, r request.Reply) error {
	if err := pawl.ValidateID(id); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	err := c.request(ctx, c.conn.PartitionOf(id), q, r)
	return about(id, err)
}
