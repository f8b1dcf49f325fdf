package pool

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Errors of a question.
var (
	ErrNobody     = errors.New("no member listens")
	ErrUnanswered = errors.New("no answer in time")
)

// FindTime is how long an owner waits for a member that has code.
const FindTime = 2 * time.Second

// Caller asks the members of a namespace for one process. It is safe for concurrent use.
type Caller struct {
	conn   *queue.Conn
	inbox  *queue.Inbox
	secret string

	parts assembly // of the goroutine of the inbox

	mu     sync.Mutex
	number uint64
	open   map[string]*question // by token
}

// question is one that has no answer yet.
type question struct {
	within time.Duration
	timer  *time.Timer
	done   func([]byte, error)
}

// NewCaller opens the inbox for the answers.
func NewCaller(conn *queue.Conn) (*Caller, error) {
	c := &Caller{conn: conn, secret: rand.Text(), open: make(map[string]*question)}
	var err error
	c.inbox, err = conn.OnAnswers(c.answered)
	return c, err
}

// Close forgets all questions: none of them is answered.
func (c *Caller) Close() {
	c.inbox.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for token, q := range c.open {
		q.timer.Stop()
		delete(c.open, token)
	}
}

// ID returns a random id of a turn.
func (c *Caller) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return c.secret + strconv.FormatUint(c.number, 36)
}

// Find looks for a member that has an orchestration: a version of it, or, with newest, any. done is called once, from any goroutine; an error
// is ErrNobody, ErrUnanswered, or that of the connection.
func (c *Caller) Find(name, version string, newest bool, within time.Duration, done func(Found, error)) {
	send := func(reply string) error { return c.conn.FindCode(name, version, newest, reply) }
	c.ask(within, send, func(b []byte, err error) {
		var f Found
		if err == nil {
			err = wire.Decode(b, f.fields)
		}
		done(f, err)
	})
}

// Send sends a request to a member. done is called as that of Find, with the answer. The member has the time again with each Progress; an
// error that is ErrTooLarge is that of the request.
func (c *Caller) Send(at string, request []byte, within time.Duration, done func(answer []byte, err error)) {
	all, err := split(request)
	if err != nil {
		done(nil, err)
		return
	}
	c.ask(within, func(reply string) error {
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
	c.ask(pause, func(string) error { return nil }, func([]byte, error) { fn() })
}

func (c *Caller) ask(within time.Duration, send func(reply string) error, done func([]byte, error)) {
	token := c.ID()
	q := &question{within: within, done: done}
	c.mu.Lock()
	c.open[token] = q
	q.timer = time.AfterFunc(within, func() { c.end(token, nil, ErrUnanswered) })
	c.mu.Unlock()
	if err := send(c.inbox.Subject(token)); err != nil {
		c.end(token, nil, err)
	}
}

// end answers a question, if it is open.
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

// answered takes a part of an answer.
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
	case !open: // it is late, or a repeat, or forged
		c.parts.drop(token)
		return nil
	case len(b) == 0:
		c.end(token, nil, ErrNobody)
		return nil
	}
	whole, err := c.parts.add(token, b, time.Now())
	if whole != nil {
		c.end(token, whole, nil)
	}
	return err
}
