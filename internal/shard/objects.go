package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/transport"
)

// Large payloads are stored as objects: see decision 81. A turn writes the objects of its decisions before its commit is sent, and its code
// reads the others when it receives them. Both happen on the goroutine of the turner, and the watchdog does not count that time. An object that
// cannot be read or written stalls the instance.

const (
	objectTimeout = time.Minute            // bounds the transfer of one object; a transfer without progress fails after two seconds
	lagWait       = 500 * time.Millisecond // how long a read waits for an object that a lagging server may not have yet
	missedFor     = time.Minute            // after a missing object, how long reads do not wait
	unansweredFor = 10 * time.Second       // after a timeout, how long transfers fail at once

	// largeTurns is the number of turns of a process that may at one time have read more than smallTurn bytes of large payloads, measured
	// after decompression and decryption: a replay holds in memory what its code retains of them.
	largeTurns = 8
	smallTurn  = 1 << 20
)

// errUnanswered fails a transfer soon after another one timed out. Otherwise a partition would wait for each object
// while the object store does not answer.
var errUnanswered = errors.New("the object store has not answered within the last ten seconds")

// lastTime is the time of the latest event of one kind. The zero value is ready to use: no event. It is safe for concurrent use.
type lastTime struct{ at atomic.Pointer[time.Time] }

func (l *lastTime) set(t time.Time) { l.at.Store(&t) }

// get returns the time; zero: none.
func (l *lastTime) get() time.Time {
	if at := l.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// within reports whether the event was less than d ago.
func (l *lastTime) within(d time.Duration) bool { return time.Since(l.get()) < d }

// storeObjects writes the objects of a turn.
func (s *shell) storeObjects(instance string, objects []sealing.Object) error {
	return s.process.putObjects(s.life, s.turns, instance, objects)
}

// putObjects writes the objects of the turn that t is running.
func (s *Process) putObjects(ctx context.Context, t *turner, instance string, objects []sealing.Object) error {
	if len(objects) == 0 {
		return nil
	}
	defer t.transfer()()
	for _, o := range objects {
		err := s.transfer(func() error {
			ctx, cancel := context.WithTimeout(ctx, objectTimeout)
			defer cancel()
			return s.conn.PutObject(ctx, o)
		})
		if err != nil {
			return fmt.Errorf("%w: instance %s: %w", replay.ErrObject, instance, err)
		}
	}
	return nil
}

// transfer transfers an object with do, unless another transfer has timed out within unansweredFor.
func (s *Process) transfer(do func() error) error {
	if s.unanswered.within(unansweredFor) {
		return errUnanswered
	}
	err := do()
	if errors.Is(err, context.DeadlineExceeded) {
		s.unanswered.set(time.Now())
	}
	return err
}

// loadObject reads an object for the code of a turn.
func (s *shell) loadObject(name string, size, opens int) ([]byte, error) {
	return s.process.loadForTurn(s.life, s.turns, name, size, opens)
}

// loadForTurn reads an object for the code of the turn that t is running.
func (s *Process) loadForTurn(ctx context.Context, t *turner, name string, size, opens int) ([]byte, error) {
	defer t.transfer()()
	if err := t.enlarge(ctx, s.large, opens); err != nil {
		return nil, err
	}
	return s.loadObject(ctx, name, size)
}

// loader returns a function that reads objects for a replica. A process has at most maxReplicas, so their reads need no other limit.
func (s *Process) loader(ctx context.Context) sealing.Load {
	return func(name string, size, _ int) ([]byte, error) { return s.loadObject(ctx, name, size) }
}

// loadObject reads an object. It waits lagWait for an object that a lagging server may not have yet, except within missedFor after an object
// stayed missing: if the store has lost its objects, a partition would wait for each of them.
func (s *Process) loadObject(ctx context.Context, name string, size int) (body []byte, err error) {
	if !s.cfg.Codec.Stores() {
		return nil, sealing.ErrNotLoaded
	}
	wait := lagWait
	if s.missed.within(missedFor) {
		wait = 0
	}
	err = s.transfer(func() (err error) {
		body, err = s.conn.GetObject(ctx, name, size, wait, objectTimeout)
		return err
	})
	if errors.Is(err, transport.ErrNoObject) {
		s.met.objectsMissing.Inc()
		if wait > 0 {
			s.missed.set(time.Now())
		}
	}
	return body, err
}

// enlarge adds to the bytes that the running job has read. A job with more than smallTurn bytes waits for a place, and holds it until it ends or is
// abandoned. A job takes at most one place, so jobs cannot deadlock on them.
func (t *turner) enlarge(ctx context.Context, places chan struct{}, bytes int) error {
	t.mu.Lock()
	t.read += bytes
	small := t.running == nil || t.read <= smallTurn || t.large != nil
	t.mu.Unlock()
	if small {
		return nil
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil || t.large != nil { // the reader is code that was abandoned
		<-places
		return nil
	}
	t.large = places
	return nil
}

// shrink releases the place of a job that ends or is abandoned.
func (t *turner) shrink() {
	if t.large != nil {
		<-t.large
		t.large = nil
	}
	t.read = 0
}

// transfer pauses the watchdog until the returned function is called.
func (t *turner) transfer() (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.transfers++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.transfers--
	}
}
