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
	return s.putObjects(s.life, s.turns, instance, objects)
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

// loadObject reads an object for code.
func (s *shell) loadObject(name string, size int) ([]byte, error) {
	defer s.turns.transfer()()
	return s.Process.loadObject(s.life, name, size)
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
