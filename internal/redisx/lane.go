package redisx

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pingTimeout is the timeout of a PING to a node that has not replied.
const pingTimeout = time.Second

// lane sends the calls to one node. Runner documents its phases.
type lane struct {
	runner *Runner
	client redis.Cmdable // client of the node; the key of the lane in Runner.lanes
	wake   chan struct{}
	quit   chan struct{} // closed when the lane has ended

	mu      sync.Mutex
	waiting []flight
	phase   lanePhase
	err     error // the error that took it down
}

type lanePhase int

const (
	laneUp lanePhase = iota
	laneDown
	laneEnded
)

// newLane starts a lane. The caller holds Runner.mu.
func newLane(r *Runner, client redis.Cmdable) *lane {
	l := &lane{runner: r, client: client, wake: make(chan struct{}, maxInFlight), quit: make(chan struct{})}
	for range maxInFlight {
		l.sender()
	}
	return l
}

// push queues a call.
func (l *lane) push(f flight) {
	l.mu.Lock()
	phase := l.phase
	if phase != laneEnded {
		l.waiting = append(l.waiting, f)
	}
	l.mu.Unlock()
	switch phase {
	case laneUp:
		l.signal()
	case laneDown: // recover moves the call
	case laneEnded: // the runner is closed, or the slot has another lane
		l.runner.later([]flight{f})
	}
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns the next batch: at most maxBatch calls and maxBytes, but at least one call. It returns none unless the lane is up.
func (l *lane) take() []flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != laneUp {
		return nil
	}
	n, size := 0, 0
	for n < min(len(l.waiting), maxBatch) && (n == 0 || size+l.waiting[n].size <= maxBytes) {
		size += l.waiting[n].size
		n++
	}
	batch := l.waiting[:n:n]
	if n == len(l.waiting) {
		l.waiting = nil
	} else {
		l.waiting = l.waiting[n:]
		l.signal()
	}
	return batch
}

// end ends the lane and returns the waiting calls.
func (l *lane) end() []flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.waiting
	l.waiting = nil
	if l.phase != laneEnded {
		l.phase = laneEnded
		close(l.quit)
	}
	return left
}

// down takes the lane down because of calls that received no reply. They are put in front of the waiting calls.
func (l *lane) down(lost []flight, err error) {
	if l.runner.ctx.Err() != nil || errors.Is(err, redis.ErrClosed) && l.runner.slots == nil {
		for _, f := range lost {
			f.fail(err)
		}
		return
	}
	l.mu.Lock()
	was := l.phase
	if was != laneEnded {
		l.phase, l.err = laneDown, err
		l.waiting = append(lost, l.waiting...)
	}
	l.mu.Unlock()
	switch was {
	case laneEnded:
		l.runner.later(lost)
	case laneUp:
		l.runner.start(l.recover) // if the runner is closing, the senders answer the calls
	case laneDown: // recover is running already
	}
}

// recover repeats PING until the node replies. Meanwhile it moves calls to the nodes that now have their slots.
func (l *lane) recover() {
	tick := time.NewTicker(maxBackoff)
	defer tick.Stop()
	answered := l.ping()
	for {
		select {
		case <-l.runner.ctx.Done():
			return
		case err := <-answered:
			switch {
			case err == nil, isReply(err) && !isTransient(err):
				l.up()
				return
			case errors.Is(err, redis.ErrClosed): // the client has removed the node, which left the cluster
				l.retire()
				return
			}
			l.runner.observe("ping", err)
			l.mu.Lock()
			l.err = err
			l.mu.Unlock()
			answered = nil
		case <-tick.C:
			l.move()
			if answered == nil {
				answered = l.ping()
			}
		}
	}
}

// ping sends a PING to the node.
func (l *lane) ping() <-chan error {
	answered := make(chan error, 1)
	l.runner.start(func() {
		ctx, stop := context.WithTimeout(l.runner.calls, pingTimeout)
		defer stop()
		answered <- bounded(l.client, pingTimeout).Ping(ctx).Err()
	})
	return answered
}

// bounded returns a client that shares connections and options with client, but has shorter timeouts and no hooks. A client of another
// type keeps its timeouts.
func bounded(client redis.Cmdable, limit time.Duration) redis.Cmdable {
	if c, ok := client.(*redis.Client); ok {
		return c.WithTimeout(limit)
	}
	return client
}

func (l *lane) up() {
	l.runner.observe("ping", nil)
	l.mu.Lock()
	l.phase, l.err = laneUp, nil
	l.mu.Unlock()
	l.signal()
}

// retire ends the lane of a node that is gone.
func (l *lane) retire() {
	l.runner.mu.Lock()
	if l.runner.lanes[l.client] == l {
		delete(l.runner.lanes, l.client)
	}
	l.runner.mu.Unlock()
	l.runner.later(l.end())
}

// move passes the calls whose slots have another master to its lane, and fails those that have waited for too long.
func (l *lane) move() {
	l.mu.Lock()
	idle := len(l.waiting) == 0
	l.mu.Unlock()
	if idle {
		return
	}
	l.runner.reload()
	l.mu.Lock()
	left, err := l.waiting, l.err
	l.waiting = nil
	l.mu.Unlock()
	now := time.Now()
	stay := left[:0]
	for _, f := range left {
		other, lerr := l.runner.lane(f.call)
		switch {
		case now.After(f.until):
			l.runner.observe(f.call.name(), err)
			f.fail(err)
		case lerr != nil:
			f.done(nil, lerr)
		case other != l:
			other.push(f)
		default:
			stay = append(stay, f)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == laneEnded {
		defer answerAll(stay, ErrClosed)
		return
	}
	l.waiting = append(stay, l.waiting...)
}
