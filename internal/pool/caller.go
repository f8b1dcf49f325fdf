package pool

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
)

// Errors of a request to a member.
var (
	ErrNoMember   = errors.New("no member listens")
	ErrUnanswered = errors.New("no answer in time")
)

// FindTime is how long an owner waits for an answer when it searches for code.
const FindTime = 2 * time.Second

// Caller sends requests to the members of a namespace. It is safe for concurrent use.
type Caller struct {
	conn   *transport.Conn
	inbox  *transport.Inbox
	secret string

	parts assembly // used by the goroutine of the inbox only

	mu     sync.Mutex
	number uint64
	open   map[string]*call // by token
}

// call is a request without an answer so far.
type call struct {
	within time.Duration
	timer  *time.Timer
	done   func([]byte, error)
}

// NewCaller opens the inbox for the answers.
func NewCaller(conn *transport.Conn) (*Caller, error) {
	c := &Caller{conn: conn, secret: rand.Text(), open: make(map[string]*call)}
	var err error
	c.inbox, err = conn.OnAnswers(c.answered)
	return c, err
}

// Close drops all open requests: done is not called for any of them.
func (c *Caller) Close() {
	c.inbox.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for token, q := range c.open {
		q.timer.Stop()
		delete(c.open, token)
	}
}

// ID returns a new id, which others cannot guess.
func (c *Caller) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return c.secret + strconv.FormatUint(c.number, 36)
}

// Find searches for a member that has a version of an orchestration or, with newest, any version. done is called once, on any goroutine, unless
// the caller is closed. Errors: ErrNoMember, ErrUnanswered, those of the connection.
func (c *Caller) Find(name, version string, newest bool, within time.Duration, done func(Found, error)) {
	send := func(reply string) error { return c.conn.FindCode(name, version, newest, reply) }
	c.call(within, send, func(b []byte, err error) {
		var f Found
		if err == nil {
			err = wire.Decode(b, f.fields)
		}
		done(f, err)
	})
}

// Send sends a request to a member, and calls done with the answer, under the rules of Find. Each Progress of the member restarts the timeout.
// The error is ErrTooLarge if the request is too large.
func (c *Caller) Send(at string, request []byte, within time.Duration, done func(answer []byte, err error)) {
	all, err := split(request)
	if err != nil {
		done(nil, err)
		return
	}
	c.call(within, func(reply string) error {
		for _, p := range all {
			if err := c.conn.SendTurn(at, reply, p); err != nil {
				return err
			}
		}
		return nil
	}, done)
}

// After calls fn after a pause, unless the caller is closed before.
func (c *Caller) After(pause time.Duration, fn func()) {
	c.call(pause, func(string) error { return nil }, func([]byte, error) { fn() })
}

func (c *Caller) call(within time.Duration, send func(reply string) error, done func([]byte, error)) {
	token := c.ID()
	q := &call{within: within, done: done}
	c.mu.Lock()
	c.open[token] = q
	q.timer = time.AfterFunc(within, func() { c.end(token, nil, ErrUnanswered) })
	c.mu.Unlock()
	if err := send(c.inbox.Subject(token)); err != nil {
		c.end(token, nil, err)
	}
}

// end completes a request, if it is open.
func (c *Caller) end(token string, answer []byte, err error) {
	c.mu.Lock()
	q := c.open[token]
	delete(c.open, token)
	c.mu.Unlock()
	if q != nil {
		q.timer.Stop()
		q.done(answer, err)
	}
}

// answered handles a part of an answer.
func (c *Caller) answered(token string, b []byte) error {
	c.mu.Lock()
	q, open := c.open[token]
	if open && bytes.Equal(b, progress) {
		q.timer.Reset(q.within)
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	switch {
	case !open: // late, repeated or forged
		c.parts.drop(token)
		return nil
	case len(b) == 0:
		c.end(token, nil, ErrNoMember)
		return nil
	}
	whole, err := c.parts.add(token, b, time.Now())
	if whole != nil {
		c.end(token, whole, nil)
	}
	return err
}
