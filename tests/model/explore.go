package model

import (
	"fmt"
	"slices"
	"strings"
)

// Found is the result of a search.
type Found struct {
	States int
	Whole  bool   // all reachable states were visited
	Broken string // the violated promise; empty if all hold
	Trace  []string
}

// String returns the counterexample, one step per line.
func (f Found) String() string {
	if f.Broken == "" {
		return fmt.Sprintf("holds in %d states (all: %v)", f.States, f.Whole)
	}
	return fmt.Sprintf("%s, found in %d states:\n  %s", f.Broken, f.States, strings.Join(f.Trace, "\n  "))
}

type search struct {
	index   map[[2]uint64]int32
	parent  []int32
	step    []string
	follows []int32            // by visited state: its fair successor; -1: it was run until it came to rest
	rests   map[[2]uint64]bool // states from which the fair world comes to rest
}

// RestBound is the maximum number of fair steps until a world comes to rest.
const RestBound = 400

// compared is the number of such steps between two comparisons with the states in rests: a comparison costs as much as several steps.
const compared = 8

// Search visits the worlds reachable from the first, at most `most`, and stops at the first that breaks a promise.
func Search(first *World, most int) Found {
	s := &search{index: map[[2]uint64]int32{}, rests: map[[2]uint64]bool{}}
	s.see(first, -1, "")
	queue := []*World{first}
	for n := 0; len(queue) > 0; n++ {
		w := queue[0]
		queue[0] = nil
		queue = queue[1:]
		if b := w.Check(); b != "" {
			return Found{States: len(s.parent), Broken: b, Trace: s.trace(int32(n))}
		}
		follows := int32(-1) // the fair successor, if the search visits it: it decides whether this world comes to rest
		fair, more := w.Fair()
		for _, step := range w.Steps() {
			if len(s.parent) >= most {
				follows = -1
				break
			}
			next := w.After(step)
			at, fresh := s.see(next, int32(n), step.String())
			if fresh {
				queue = append(queue, next)
			}
			if more && follows < 0 && step.String() == fair.String() {
				follows = at
			}
		}
		s.follows = append(s.follows, follows)
		if follows >= 0 {
			continue
		}
		if b, tail := s.rest(w); b != "" {
			return Found{States: len(s.parent), Broken: b, Trace: append(s.trace(int32(n)), tail...)}
		}
	}
	if n := s.cycle(); n >= 0 {
		return Found{States: len(s.parent), Broken: "the world never comes to rest", Trace: s.trace(n)}
	}
	return Found{States: len(s.parent), Whole: len(s.parent) < most}
}

func (s *search) see(w *World, parent int32, step string) (at int32, fresh bool) {
	k := w.Hash()
	if at, known := s.index[k]; known {
		return at, false
	}
	at = int32(len(s.parent))
	s.index[k] = at
	s.parent, s.step = append(s.parent, parent), append(s.step, step)
	return at, true
}

// cycle returns a state from which the fair world repeats itself forever; -1: there is none.
func (s *search) cycle() int32 {
	ends := make([]bool, len(s.follows))
	for n := range s.follows {
		at := int32(n)
		for steps := 0; at >= 0 && int(at) < len(ends) && !ends[at]; steps++ {
			if steps > len(ends) {
				return int32(n)
			}
			at = s.follows[at]
		}
		for at := int32(n); at >= 0 && int(at) < len(ends) && !ends[at]; at = s.follows[at] {
			ends[at] = true
		}
	}
	return -1
}

func (s *search) trace(n int32) (steps []string) {
	for ; s.parent[n] >= 0; n = s.parent[n] {
		steps = append(steps, s.step[n])
	}
	slices.Reverse(steps)
	return steps
}

// rest takes fair steps until the world comes to rest or reaches a state in rests.
func (s *search) rest(w *World) (broken string, steps []string) {
	var path [][2]uint64
	for n := range RestBound {
		if n%compared == 0 {
			k := w.Hash()
			if s.rests[k] {
				break
			}
			path = append(path, k)
		}
		step, more := w.Fair()
		if !more {
			if b := w.Finished(); b != "" {
				return b, append(steps, "(at rest)")
			}
			break
		}
		if len(steps) == 0 {
			w = w.After(step)
		} else {
			w.Do(step)
		}
		steps = append(steps, "  then "+step.String())
		if b := w.Check(); b != "" {
			return b, steps
		}
		if len(steps) == RestBound {
			return "the world never comes to rest", steps[:min(len(steps), 60)]
		}
	}
	for _, k := range path {
		s.rests[k] = true
	}
	return "", nil
}

// Walk takes at most `steps` steps, each chosen among n by pick, and then lets the world come to rest. It returns the violated
// promise, empty if all hold, and the steps. It changes the world itself.
func Walk(w *World, steps int, pick func(n int) int) (broken string, trace []string) {
	for range steps {
		all := w.Steps()
		if len(all) == 0 {
			break
		}
		s := all[pick(len(all))]
		w.Do(s)
		trace = append(trace, s.String())
		if b := w.Check(); b != "" {
			return b, trace
		}
	}
	for range 20 * RestBound {
		s, more := w.Fair()
		if !more {
			return w.Finished(), append(trace, "(at rest)")
		}
		w.Do(s)
		trace = append(trace, "  then "+s.String())
		if b := w.Check(); b != "" {
			return b, trace
		}
	}
	return "the world never comes to rest", trace
}
