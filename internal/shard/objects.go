package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Large payloads are objects: see decision 81. The turn writes those of its decisions before its commit is sent, and its code reads the
// others when it receives them. Both happen on the goroutine of the turner; the watchdog does not count that time, and an object that cannot
// be read or written stalls the instance.

const (
	objectTimeout = time.Minute // bounds one object; a transfer without progress ends after two seconds
	lagWait       = 500 * time.Millisecond
	missedFor     = time.Minute
	unansweredFor = 10 * time.Second

	// largeTurns is how many turns of a process may at one time have read more than smallTurn bytes of large payloads, as they are when they are
	// opened: a replay has in memory what its code keeps of them.
	largeTurns = 8
	smallTurn  = 1 << 20
)

// errUnanswered is that of a read or write soon after one that timed out: of a store that does not answer, each object would have a partition
// wait.
var errUnanswered = errors.New("the object store has not answered within the last ten seconds")

// lastTime is when something happened last.
type lastTime struct{ at atomic.Pointer[time.Time] }

func (l *lastTime) now() {
	now := time.Now()
	l.at.Store(&now)
}

func (l *lastTime) within(d time.Duration) bool {
	at := l.at.Load()
	return at != nil && time.Since(*at) < d
}

// storeObjects writes the objects of a turn.
func (s *shell) storeObjects(instance string, objects []pawlcodec.Object) error {
	return s.process.putObjects(s.life, s.turns, instance, objects)
}

// putObjects writes the objects of a turn that the turner has.
func (s *Process) putObjects(ctx context.Context, t *turner, instance string, objects []pawlcodec.Object) error {
	if len(objects) == 0 {
		return nil
	}
	defer t.transfer()()
	for _, o := range objects {
		err := s.answered(func() error {
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

// answered transfers an object, unless the store did not answer just now.
func (s *Process) answered(transfer func() error) error {
	if s.unanswered.within(unansweredFor) {
		return errUnanswered
	}
	err := transfer()
	if errors.Is(err, context.DeadlineExceeded) {
		s.unanswered.now()
	}
	return err
}

// loadObject reads an object for the code of a turn.
func (s *shell) loadObject(name string, size, opens int) ([]byte, error) {
	return s.process.loadForTurn(s.life, s.turns, name, size, opens)
}

// loadForTurn reads an object for the code of the turn that the turner has.
func (s *Process) loadForTurn(ctx context.Context, t *turner, name string, size, opens int) ([]byte, error) {
	defer t.transfer()()
	if err := t.enlarge(ctx, s.large, opens); err != nil {
		return nil, err
	}
	return s.loadObject(ctx, name, size)
}

// loader reads objects for a replica, of which a process has at most maxReplicas.
func (s *Process) loader(ctx context.Context) pawlcodec.Load {
	return func(name string, size, _ int) ([]byte, error) { return s.loadObject(ctx, name, size) }
}

// loadObject waits for a server that lags, but after an object that stayed missing only when a minute is over: of a store that has lost its
// objects, each would have a partition wait.
func (s *Process) loadObject(ctx context.Context, name string, size int) (body []byte, err error) {
	if !s.cfg.Codec.Stores() {
		return nil, pawlcodec.ErrNotLoaded
	}
	wait := lagWait
	if s.missed.within(missedFor) {
		wait = 0
	}
	err = s.answered(func() (err error) {
		body, err = s.conn.GetObject(ctx, name, size, wait, objectTimeout)
		return err
	})
	if errors.Is(err, queue.ErrNoObject) {
		s.met.objectsMissing.Inc()
		if wait > 0 {
			s.missed.now()
		}
	}
	return body, err
}

// enlarge adds what the running job reads. One that has more than smallTurn takes a place until it ends or is left behind, and waits for it. It
// takes no second one, so none waits for another that waits.
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
	if t.running == nil || t.large != nil { // it is read by code that was left behind
		<-places
		return nil
	}
	t.large = places
	return nil
}

// shrink gives the place of the job back that ends or is left behind.
func (t *turner) shrink() {
	if t.large != nil {
		<-t.large
		t.large = nil
	}
	t.read = 0
}

// transfer has the watchdog wait until the function returned is called.
func (t *turner) transfer() (over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.transfers++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.transfers--
	}
}
