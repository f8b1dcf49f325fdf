// Package explore searches a small world, breadth first, for a state that breaks a promise: a safety promise in the
// state itself, or a liveness promise in the fair world that goes on from it. The worlds are those of packages model and gates.
package explore

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
)

// World is a state, and what can happen in it.
type World[W, S any] interface {
	Check() string    // the promise that the state breaks, or nothing
	Finished() string // what is missing from a world that has come to rest
	Steps() []S
	After(s S) W
	Fair() (s S, more bool) // the next step of a world in which nothing goes wrong any more; false: it rests
	// Text appends all that makes the state another one. In it, `~n` is a name that was made up and `@n` a moment.
	Text(b []byte) []byte
	Clock() int64
}

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

type search[W World[W, S], S fmt.Stringer] struct {
	seeds       [2]maphash.Seed
	index       map[[2]uint64]int32
	parent      []int32
	step        []string
	rests       map[[2]uint64]bool // states from which the fair world is known to finish
	text, canon []byte
}

// RestBound is how many fair steps a world may need to come to rest.
const RestBound = 400

// Search visits the worlds that follow from the first, at most so many, and stops at the first that breaks a promise.
func Search[W World[W, S], S fmt.Stringer](first W, most int) Found {
	s := &search[W, S]{index: map[[2]uint64]int32{}, rests: map[[2]uint64]bool{}}
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	s.see(first, -1, "")
	queue := []W{first}
	for n := 0; len(queue) > 0; n++ {
		w := queue[0]
		queue[0] = *new(W)
		queue = queue[1:]
		if b := w.Check(); b != "" {
			return Found{States: len(s.parent), Broken: b, Trace: s.trace(int32(n))}
		}
		if b, tail := s.rest(w); b != "" {
			return Found{States: len(s.parent), Broken: b, Trace: append(s.trace(int32(n)), tail...)}
		}
		for _, step := range w.Steps() {
			if next := w.After(step); len(s.parent) < most && s.see(next, int32(n), step.String()) {
				queue = append(queue, next)
			}
		}
	}
	return Found{States: len(s.parent), Whole: len(s.parent) < most}
}

// key identifies a world up to the names that were made up and the origin of its clock: names are numbered again in
// the order in which they appear, moments become distances from now, all of the past being one.
func (s *search[W, S]) key(w W) [2]uint64 {
	s.text = w.Text(s.text[:0])
	canon, text, now := s.canon[:0], s.text, w.Clock()
	names := make(map[string]int64, 16)
	for i := 0; i < len(text); {
		c := text[i]
		canon = append(canon, c)
		i++
		if c != '~' && c != '@' {
			continue
		}
		j := i
		for j < len(text) && (text[j] >= '0' && text[j] <= '9' || text[j] == '-') {
			j++
		}
		var n int64
		if c == '~' {
			seen, ok := names[string(text[i:j])]
			if !ok {
				seen = int64(len(names))
				names[string(text[i:j])] = seen
			}
			n = seen
		} else {
			at, _ := strconv.ParseInt(string(text[i:j]), 10, 64)
			n = max(at-now, 0)
		}
		canon = strconv.AppendInt(canon, n, 10)
		i = j
	}
	s.canon = canon
	return [2]uint64{maphash.Bytes(s.seeds[0], canon), maphash.Bytes(s.seeds[1], canon)}
}

func (s *search[W, S]) see(w W, parent int32, step string) bool {
	k := s.key(w)
	if _, known := s.index[k]; known {
		return false
	}
	s.index[k] = int32(len(s.parent))
	s.parent, s.step = append(s.parent, parent), append(s.step, step)
	return true
}

func (s *search[W, S]) trace(n int32) (steps []string) {
	for ; s.parent[n] >= 0; n = s.parent[n] {
		steps = append(steps, s.step[n])
	}
	slices.Reverse(steps)
	return steps
}

// rest lets the world go on fairly until it rests or meets a state that is known to finish.
func (s *search[W, S]) rest(w W) (broken string, steps []string) {
	var path [][2]uint64
	for range RestBound {
		k := s.key(w)
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
		steps = append(steps, "  then "+step.String())
		if b := w.Check(); b != "" {
			return b, steps
		}
		if len(path) == RestBound {
			return "the world never comes to rest", steps[:min(len(steps), 60)]
		}
	}
	for _, k := range path {
		s.rests[k] = true
	}
	return "", nil
}
