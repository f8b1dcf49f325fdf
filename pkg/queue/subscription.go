package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Subscription is an interest in messages. Its callback runs on one goroutine, a
// message at a time.
type Subscription struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	closed chan struct{} // the goroutine of the callback has ended
	before func()        // asks what the callback has started to end; may be nil
	after  func()        // joins it; may be nil
}

func subscribe(nc *nats.Conn, subject string, fn nats.MsgHandler) (*Subscription, error) {
	return subscribeGroup(nc, subject, "", fn)
}

// subscribeGroup is subscribe as a member of a group, of which one member gets a message; an empty group is none.
func subscribeGroup(nc *nats.Conn, subject, group string, fn nats.MsgHandler) (*Subscription, error) {
	s := &Subscription{nc: nc, closed: make(chan struct{})}
	ready := make(chan struct{})
	sub, err := nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		<-ready // so that fn may use what its caller gets from here
		fn(m)
	})
	if err != nil {
		return nil, fmt.Errorf("queue: subscribe to %s: %w", subject, err)
	}
	sub.SetClosedHandler(func(string) { close(s.closed) })
	s.sub = sub
	close(ready)
	return s, nil
}

// Stop ends the interest and waits until the callback is not running and will not
// run again. It must not be called from the callback. Stopping twice is harmless.
func (s *Subscription) Stop() {
	if s.before != nil {
		s.before()
	}
	if err := s.sub.Unsubscribe(); err != nil && !gone(err) {
		return
	}
	<-s.closed
	if s.after != nil {
		s.after()
	}
}

// Dropped counts the messages that were lost because the callback was too slow.
func (s *Subscription) Dropped() int {
	n, err := s.sub.Dropped()
	if err != nil { // it has ended
		return 0
	}
	return n
}

// gone is true of the errors after which the callback's goroutine ends by itself.
func gone(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) || errors.Is(err, nats.ErrConnectionDraining)
}

// drain ends the interest, but lets the callback have what the server has already sent.
func (s *Subscription) drain(patience time.Duration) {
	deadline := time.Now().Add(patience)
	if s.nc.IsConnected() && s.sub.Drain() == nil {
		_ = s.nc.FlushTimeout(patience) // in vain if the connection is lost: then nothing more comes
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		if n, _, err := s.sub.Pending(); err != nil || n == 0 { // counted down after the callback
			return
		}
		<-tick.C
	}
}
