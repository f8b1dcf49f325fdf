package shard

import (
	"sync"
)

// shards are those of this process, by partition. It is safe for concurrent use.
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

// remove forgets the shard, unless the partition has another one already.
func (s *shards) remove(p *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[p.shell.st.Part] == p {
		delete(s.of, p.shell.st.Part)
	}
}

// at gives the shard of a partition; nil if it is not here.
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
