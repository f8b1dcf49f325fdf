package worker

import "sync"

// localShare is the number of free slots that are kept for tasks of this process, for each one that is requested from NATS.
const localShare = 3

// freeSlots divides the free slots of a queue. A request to NATS cannot be withdrawn, so that each free slot is either requested or kept for
// tasks of this process (see queue.Local). A task that finds none kept comes through NATS, and every delivery moves a kept slot to the
// requests: either kind of tasks can take all slots.
type freeSlots struct {
	local bool // there may be tasks of this process

	mu        sync.Mutex
	kept      int
	requested int
}

// divide divides n slots at the start, and returns how many to request.
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

// delivered takes a requested slot, and returns how many to request in its place.
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

// reserve takes a kept slot, if there is one.
func (s *freeSlots) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == 0 {
		return false
	}
	s.kept--
	return true
}

// freed adds a free slot, and returns how many to request.
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
