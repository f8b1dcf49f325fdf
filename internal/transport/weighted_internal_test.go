package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitersOfMemoryAreAdmittedInFIFOOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWeighted(10)
		if err := s.acquire(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		var order []int64
		var mu sync.Mutex
		for _, weight := range []int64{9, 1, 4, 5} { // 1 fits at once, but it is behind 9
			go func() {
				if s.acquire(t.Context(), weight) == nil {
					mu.Lock()
					order = append(order, weight)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		want := func(admitted ...int64) {
			t.Helper()
			synctest.Wait()
			slices.Sort(order) // those that are admitted together run in any order
			if !slices.Equal(order, admitted) {
				t.Errorf("%v, want %v", order, admitted)
			}
			order = nil
		}
		want()
		s.release(8)
		want(1, 9)
		s.release(9)
		want(4, 5)
	})
}

func TestCancelledWaiterOfMemoryHoldsNothingAndAdmitsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWeighted(10)
		if err := s.acquire(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		large, small := make(chan error, 1), make(chan error, 1)
		go func() { large <- s.acquire(ctx, 9) }()
		synctest.Wait()
		go func() { small <- s.acquire(t.Context(), 2) }()
		synctest.Wait()
		cancel()
		if err := <-large; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-small; err != nil {
			t.Error(err)
		}
		if err := s.acquire(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("%v after the end of the context", err)
		}
		if s.free != 0 || len(s.waiters) != 0 {
			t.Errorf("%d free, %d waiters", s.free, len(s.waiters))
		}
	})
}

func TestMemoryInUseNeverExceedsItsLimit(t *testing.T) {
	const size = 20
	s := newWeighted(size)
	var used atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 300 {
				weight := 1 + rand.Int64N(size)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(50*time.Microsecond))))
				if s.acquire(ctx, weight) == nil {
					if n := used.Add(weight); n > size {
						t.Errorf("%d in use", n)
					}
					used.Add(-weight)
					s.release(weight)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if s.free != size || len(s.waiters) != 0 {
		t.Errorf("%d free, %d waiters", s.free, len(s.waiters))
	}
}
