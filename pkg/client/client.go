package client

import (
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

	"github.com/pawlrun/pawl/pkg/queue"
)

// Options are the settings of a Client. The zero value is usable.
type Options struct {
	Namespace string // default "default"
	By        string // how histories name who started, sent or cancelled; default empty

	// Patience is how long a request is repeated while no orchestrator owns the partition,
	// as in a hand-over or after a crash; default: until its context ends (without a
	// deadline: for 30 s). It is also how long a listing does, and how long the wait for a
	// status, or for the result of a Run of Attach, puts up with an instance that is not
	// known yet; default 2 s.
	Patience time.Duration

	// Every is how often whoever waits for a result or a status asks again; default 5 s.
	// When the owner of a partition changes, they do so within 50 ms.
	Every time.Duration

	Logger *slog.Logger // default: discard
}

// Client is one namespace's client. It is safe for concurrent use.
type Client struct {
	conn  *queue.Conn
	own   bool // the Conn is ours to close
	opts  Options
	owner time.Duration // how long a request waits for an owner; 0: until its context ends
	inbox *queue.Inbox
	done  chan struct{} // closed by Close

	owners    owners
	announced *queue.Subscription
	watching  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// waiting finds who waits by the token of its reply subject. The pointers are
	// weak: a Run that its caller has let go of takes its entry with it.
	waiting map[string]weak.Pointer[waiter]
}

// waiter is where an answer arrives.
type waiter struct {
	token   string
	settled chan struct{} // closed when answer is set
	once    sync.Once
	answer  queue.Answer
}

func (w *waiter) settle(a queue.Answer) {
	w.once.Do(func() {
		w.answer = a
		close(w.settled)
	})
}

// New opens a namespace on a NATS connection. It waits, until ctx ends, while NATS or JetStream is unavailable. The error is
// queue.ErrNoNamespace if no orchestrator has created the namespace yet. Close leaves nc open.
//
// The NATS user needs no more than the permission to publish inputs and to subscribe to its inbox: without that to look at the
// INPUTS stream it can start, send, cancel and purge, and await what its own starts come to; everything else is a
// *queue.PermissionError.
func New(ctx context.Context, nc *nats.Conn, o Options) (*Client, error) {
	conn, err := queue.JoinToPublish(ctx, nc, queue.Options{Namespace: o.Namespace, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c, err := On(conn, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.own = true
	return c, nil
}

// On makes a Client of a Conn that the program has anyway; o.Namespace is not used.
// Close leaves the Conn open.
func On(conn *queue.Conn, o Options) (*Client, error) {
	owner := o.Patience
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	c := &Client{conn: conn, opts: o, owner: owner, done: make(chan struct{}), waiting: make(map[string]weak.Pointer[waiter])}
	inbox, err := conn.OnAnswers(c.answered)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c.inbox = inbox
	if conn.Partitions() > 0 { // else nothing can be requested
		if c.announced, err = conn.OnOwners(c.owners.changed); err != nil {
			inbox.Stop()
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	status := conn.NATS().StatusChanged(nats.CONNECTED)
	c.watching.Go(func() { c.watch(status) })
	return c, nil
}

// watch has all questions put again when a lost connection is back.
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

// Close ends the waiting of all runs with ErrClosed.
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
	if c.own {
		c.conn.Close()
	}
}

// wait makes a place for an answer.
func (c *Client) wait() *waiter {
	w := &waiter{token: nuid.Next(), settled: make(chan struct{})}
	c.mu.Lock()
	c.waiting[w.token] = weak.Make(w)
	c.mu.Unlock()
	runtime.AddCleanup(w, c.forget, w.token)
	return w
}

func (c *Client) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, token)
}

func (c *Client) answered(token string, a queue.Answer) {
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
	askOnce     = 2 * time.Second  // bounds the first attempt of a request; each further one has twice as long
	askPatience = 30 * time.Second // of a request whose context has no deadline
)

// ask sends a request to the owner of an instance's partition. It is repeated while there is no owner, and when it was
// not answered, for an owner that dies or is cut off takes the requests that it has with it.
func (c *Client) ask(ctx context.Context, partition int, a queue.Ask) (queue.Reply, error) {
	return c.askWithin(ctx, c.owner, partition, a)
}

// askWithin is ask that waits for an owner no longer than patience; 0: until ctx ends.
func (c *Client) askWithin(ctx context.Context, patience time.Duration, partition int, a queue.Ask) (queue.Reply, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askPatience)
		defer cancel()
	}
	var ownerless <-chan time.Time
	if patience > 0 {
		t := time.NewTimer(patience)
		defer t.Stop()
		ownerless = t.C
	}
	pause, once := 20*time.Millisecond, askOnce
	for {
		r, err := c.attempt(ctx, once, partition, a)
		late := errors.Is(err, queue.ErrTimeout)
		switch {
		case !late && !errors.Is(err, ErrNoOwner):
			return r, err
		case ctx.Err() != nil:
			return r, fmt.Errorf("%w (last: %w)", ctx.Err(), err)
		case late:
			once *= 2
			continue
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 250*time.Millisecond)
		case <-ownerless:
			return r, err
		case <-c.done:
			return r, ErrClosed
		case <-ctx.Done():
			return r, fmt.Errorf("%w (last: %w)", ctx.Err(), err)
		}
	}
}

func (c *Client) attempt(ctx context.Context, within time.Duration, partition int, a queue.Ask) (queue.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := c.conn.Ask(ctx, partition, a)
	if err == nil && r.Problem != nil {
		err = problem(a.Instance, r.Problem)
	}
	return r, err
}
