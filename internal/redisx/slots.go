package redisx

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	reloadEvery = 250 * time.Millisecond // minimum time between the starts of two loads
	maxReloads  = 16                     // maximum number of concurrent loads
)

// slotMap makes a cluster client reload its slot map. The client queries one node after the other, in random order and with its own
// timeouts, so a later load may overtake one that is waiting for a node that hangs. Its methods are safe for concurrent use.
type slotMap struct {
	cluster *redis.ClusterClient

	mu      sync.Mutex
	began   time.Time       // start of the latest load
	loading int             // number of running loads
	ended   chan struct{}   // closed when the next load ends
	masters []*redis.Client // result of the load that ended last
	err     error           // its error
	done    bool            // a load has ended
	closed  bool
}

func newSlotMap(cluster *redis.ClusterClient) *slotMap {
	return &slotMap{cluster: cluster, ended: make(chan struct{})}
}

// reload starts a load, unless one was started within reloadEvery, and waits for at most reloadEvery until a load ends.
func (s *slotMap) reload(ctx context.Context) {
	s.mu.Lock()
	if !s.closed && s.loading < maxReloads && time.Since(s.began) >= reloadEvery {
		s.began = time.Now()
		s.loading++
		go s.load(context.WithoutCancel(ctx)) // it has its own timeout, and other callers wait for it
	}
	loading, ended := s.loading > 0, s.ended
	s.mu.Unlock()
	if !loading {
		return
	}
	timeout := time.NewTimer(reloadEvery)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

func (s *slotMap) load(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	var mu sync.Mutex
	var masters []*redis.Client
	err := s.cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error { // reloads the slot map first
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, c)
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.masters, s.err, s.done = masters, err, true
	s.loading--
	close(s.ended)
	s.ended = make(chan struct{})
}

// loaded reports whether a load has ended.
func (s *slotMap) loaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// latest returns the result of the load that ended last.
func (s *slotMap) latest() ([]*redis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.masters, s.err
}

// end prevents further loads. Running ones end on their own.
func (s *slotMap) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// close waits for the running loads, for at most closeGrace. A load that is waiting for a node that hangs ends with the client's own
// timeout, or when the client is closed.
func (s *slotMap) close() {
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	s.end()
	for {
		s.mu.Lock()
		loading, ended := s.loading, s.ended
		s.mu.Unlock()
		if loading == 0 {
			return
		}
		select {
		case <-ended:
		case <-grace.C:
			return
		}
	}
}
