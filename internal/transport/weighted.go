package transport

import (
	"context"
	"slices"
	"sync"
)

// weighted is a semaphore whose holders have weights. Waiters are admitted in FIFO order, so a large one is not overtaken by small ones.
type weighted struct {
	mu      sync.Mutex
	free    int64
	waiters []*weightedWaiter
}

type weightedWaiter struct {
	weight   int64
	admitted chan struct{} // closed once the waiter is a holder
}

func newWeighted(size int64) *weighted { return &weighted{free: size} }

// acquire waits until the weight is free, which must be at most the size. The error is that of ctx; nothing is held then.
func (s *weighted) acquire(ctx context.Context, weight int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &weightedWaiter{weight: weight, admitted: make(chan struct{})}
	s.mu.Lock()
	s.waiters = append(s.waiters, w)
	s.admit()
	s.mu.Unlock()
	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiters, w); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
	} else { // admitted at the same time
		s.free += weight
	}
	s.admit() // the next waiter may be smaller
	return ctx.Err()
}

// release returns the weight of a holder.
func (s *weighted) release(weight int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += weight
	s.admit()
}

// admit makes the first waiters holders, as long as their weights are free. The caller holds mu.
func (s *weighted) admit() {
	for len(s.waiters) > 0 && s.waiters[0].weight <= s.free {
		w := s.waiters[0]
		s.free -= w.weight
		s.waiters = slices.Delete(s.waiters, 0, 1)
		close(w.admitted)
	}
}
