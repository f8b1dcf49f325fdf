package shard

import "sync"

// shards are the shards of a process, by partition. They are safe for concurrent use.
type shards struct {
	mu sync.Mutex
	of map[int]*shard
}

func newShards() *shards { return &shards{of: make(map[int]*shard)} }

func (s *shards) add(p *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[p.shell.st.Part] = p
}

// remove removes p, unless a newer shard of its partition has been added.
func (s *shards) remove(p *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[p.shell.st.Part] == p {
		delete(s.of, p.shell.st.Part)
	}
}

// at returns the shard of a partition, or nil if this process does not own it.
func (s *shards) at(partition int) *shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[partition]
}

func (s *shards) each(f func(*shard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.of {
		f(p)
	}
}
