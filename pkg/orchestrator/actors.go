package orchestrator

import "sync"

// actors are those of this process, by partition. It is safe for concurrent use.
type actors struct {
	mu sync.Mutex
	of map[int]*actor
}

func newActors() *actors { return &actors{of: make(map[int]*actor)} }

func (s *actors) add(a *actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[a.st.Part] = a
}

// remove forgets the actor, unless the partition has another one already.
func (s *actors) remove(a *actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[a.st.Part] == a {
		delete(s.of, a.st.Part)
	}
}

// at gives the actor of a partition; nil if it is not here.
func (s *actors) at(partition int) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[partition]
}

func (s *actors) each(f func(*actor)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.of {
		f(a)
	}
}
