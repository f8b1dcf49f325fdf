package model

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// Found is what a search has found.
type Found struct {
	States int
	Whole  bool   // there is no state that was not seen
	Broken string // the promise, empty if all hold
	Trace  []string
}

// String shows the counterexample, one step a line.
func (f Found) String() string {
	if f.Broken == "" {
		return fmt.Sprintf("holds in %d states (all: %v)", f.States, f.Whole)
	}
	return fmt.Sprintf("%s, found in %d states:\n  %s", f.Broken, f.States, strings.Join(f.Trace, "\n  "))
}

type search struct {
	seeds       [2]maphash.Seed
	index       map[[2]uint64]int32
	parent      []int32
	step        []string
	rests       map[[2]uint64]bool // states from which the fair world is known to finish
	text, canon []byte
}

// restBound is how many fair steps a world may need to come to rest.
const restBound = 400

// Search visits the worlds of the setup breadth first, at most so many, and
// stops at the first that breaks a promise: a safety promise in the state
// itself, or a liveness promise in the fair world that goes on from it.
func Search(setup *Setup, most int) Found {
	s := &search{index: map[[2]uint64]int32{}, rests: map[[2]uint64]bool{}}
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	first := NewWorld(setup)
	s.see(first, -1, "")
	queue := []*World{first}
	for n := 0; len(queue) > 0; n++ {
		w := queue[0]
		queue[0], queue = nil, queue[1:]
		if b := w.Check(); b != "" {
			return Found{States: len(s.parent), Broken: b, Trace: s.trace(int32(n))}
		}
		if b, tail := s.rest(w); b != "" {
			return Found{States: len(s.parent), Broken: b, Trace: append(s.trace(int32(n)), tail...)}
		}
		for _, step := range w.Steps() {
			if next := w.After(step); len(s.parent) < most && s.see(next, int32(n), step.Name) {
				queue = append(queue, next)
			}
		}
	}
	return Found{States: len(s.parent), Whole: len(s.parent) < most}
}

func (s *search) keyOf(w *World) (k [2]uint64) {
	k, s.text, s.canon = w.key(s.seeds, s.text, s.canon)
	return k
}

func (s *search) see(w *World, parent int32, step string) bool {
	k := s.keyOf(w)
	if _, known := s.index[k]; known {
		return false
	}
	s.index[k] = int32(len(s.parent))
	s.parent, s.step = append(s.parent, parent), append(s.step, step)
	return true
}

func (s *search) trace(n int32) (steps []string) {
	for ; s.parent[n] >= 0; n = s.parent[n] {
		steps = append(steps, s.step[n])
	}
	slices.Reverse(steps)
	return steps
}

// rest lets the world go on fairly until it rests or meets a state that is known to finish.
func (s *search) rest(w *World) (broken string, steps []string) {
	var path [][2]uint64
	for range restBound {
		k := s.keyOf(w)
		if s.rests[k] {
			break
		}
		path = append(path, k)
		step, more := w.Fair()
		if !more {
			if b := w.Finished(); b != "" {
				return b, append(steps, "(at rest)")
			}
			break
		}
		w = w.After(step)
		steps = append(steps, "  then "+step.Name)
		if b := w.Check(); b != "" {
			return b, steps
		}
		if len(path) == restBound {
			return "the world never comes to rest", steps[:min(len(steps), 60)]
		}
	}
	for _, k := range path {
		s.rests[k] = true
	}
	return "", nil
}
