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
	follows     []int32            // of each state that was visited: its fair successor; -1: it was let come to rest
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
		follows := int32(-1) // the fair successor, if the search visits it: then that comes to rest, or does not
		fair, more := w.Fair()
		_, hashed := any(w).(interface{ Hash() [2]uint64 })
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
			if more && hashed && follows < 0 && step.String() == fair.String() {
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

// key identifies a world.
func (s *search[W, S]) key(w W) [2]uint64 {
	if h, ok := any(w).(interface{ Hash() [2]uint64 }); ok {
		return h.Hash()
	}
	return s.textKey(any(w).(texted))
}

// texted is a world whose names and moments are compared by their places.
type texted interface {
	// Text appends all that makes the state another one. In it, `~n` is a name that was made up and `@n` a moment.
	Text(b []byte) []byte
	Clock() int64
}

// textKey identifies a world up to the names that were made up and the origin of its clock: names are numbered again in
// the order in which they appear, moments become distances from now, all of the past being one.
func (s *search[W, S]) textKey(w texted) [2]uint64 {
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

func (s *search[W, S]) see(w W, parent int32, step string) (at int32, fresh bool) {
	k := s.key(w)
	if at, known := s.index[k]; known {
		return at, false
	}
	at = int32(len(s.parent))
	s.index[k] = at
	s.parent, s.step = append(s.parent, parent), append(s.step, step)
	return at, true
}

// cycle returns a state from which the fair world goes round in a circle; -1: there is none.
func (s *search[W, S]) cycle() int32 {
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

func (s *search[W, S]) trace(n int32) (steps []string) {
	for ; s.parent[n] >= 0; n = s.parent[n] {
		steps = append(steps, s.step[n])
	}
	slices.Reverse(steps)
	return steps
}

// path is the key of a world on its path to rest, and whether it is known to come there. Of worlds that are costly to compare only
// some are.
func (s *search[W, S]) path(w W, n int) (k [2]uint64, known bool) {
	if _, costly := any(w).(interface{ Hash() [2]uint64 }); costly && n%8 != 0 {
		return k, false
	}
	k = s.key(w)
	return k, s.rests[k]
}

// rest lets the world go on fairly until it rests or meets a state that is known to finish.
func (s *search[W, S]) rest(w W) (broken string, steps []string) {
	var path [][2]uint64
	for range RestBound {
		k, known := s.path(w, len(path))
		if known {
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
		if own, ok := any(w).(interface{ Do(s S) }); ok && len(steps) > 0 {
			own.Do(step)
		} else {
			w = w.After(step)
		}
		steps = append(steps, "  then "+step.String())
		if b := w.Check(); b != "" {
			return b, steps
		}
		if len(path) == RestBound {
			return "the world never comes to rest", steps[:min(len(steps), 60)]
		}
	}
	for _, k := range path {
		if k != ([2]uint64{}) {
			s.rests[k] = true
		}
	}
	return "", nil
}
