package transport

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Subscription receives messages. Its callback is called on one goroutine, with one message at a time.
type Subscription struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	closed chan struct{} // closed when the goroutine of the callback has ended
	before func()        // cancels the work that the callback started; may be nil
	after  func()        // joins that work; may be nil
}

func subscribe(nc *nats.Conn, subject string, fn nats.MsgHandler) (*Subscription, error) {
	return subscribeGroup(nc, subject, "", fn)
}

// subscribeGroup subscribes as a member of a group: one member of it receives each message. An empty group means none.
func subscribeGroup(nc *nats.Conn, subject, group string, fn nats.MsgHandler) (*Subscription, error) {
	s := &Subscription{nc: nc, closed: make(chan struct{})}
	ready := make(chan struct{})
	sub, err := nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		<-ready // so that fn may use the returned subscription
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

// Stop unsubscribes and waits until the callback is not running and will not run again. It must not be called from the callback. A second
// call has no effect.
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

// Dropped returns the number of messages that were lost because the callback was too slow.
func (s *Subscription) Dropped() int {
	n, err := s.sub.Dropped()
	if err != nil { // the subscription has ended
		return 0
	}
	return n
}

// gone reports whether, after err, the goroutine of the callback ends on its own.
func gone(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) || errors.Is(err, nats.ErrConnectionDraining)
}

// drain unsubscribes, and lets the callback process messages in transit, for at most timeout.
func (s *Subscription) drain(timeout time.Duration) {
	deadline := time.Now().Add(timeout)
	if s.nc.IsConnected() && s.sub.Drain() == nil {
		_ = s.nc.FlushTimeout(timeout) // fails if the connection is lost: nothing more arrives in that case
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		if n, _, err := s.sub.Pending(); err != nil || n == 0 { // decremented after the callback
			return
		}
		<-tick.C
	}
}
