package worker

import "sync"

// localShare is the number of free slots that are kept for local tasks per slot that is requested from NATS.
const localShare = 3

// freeSlots divides the free slots of a queue between NATS and local tasks, the tasks of an orchestrator in this process (see
// queue.Local). A request to NATS cannot be withdrawn, so each free slot is either requested from NATS or kept for local tasks. A local
// task that finds no kept slot is published to NATS, and every delivery from NATS converts a kept slot into a request. So tasks of either
// kind can use all slots.
type freeSlots struct {
	local bool // local tasks are possible

	mu        sync.Mutex
	kept      int
	requested int
}

// divide divides the n slots of a new queue and returns the number to request from NATS.
func (s *freeSlots) divide(n int, local bool) (request int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.local = local
	if local {
		s.kept = n * localShare / (localShare + 1)
	}
	s.requested = n - s.kept
	return s.requested
}

// delivered takes a requested slot and returns the number of slots to request in its place.
func (s *freeSlots) delivered() (request int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested--
	if s.kept <= localShare*s.requested {
		return 0
	}
	s.kept--
	s.requested++
	return 1
}

// reserve takes a kept slot and reports whether there was one.
func (s *freeSlots) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == 0 {
		return false
	}
	s.kept--
	return true
}

// freed adds a free slot and returns the number of slots to request.
func (s *freeSlots) freed() (request int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local && s.kept < localShare*s.requested {
		s.kept++
		return 0
	}
	s.requested++
	return 1
}
