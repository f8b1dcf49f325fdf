package explore

import "fmt"

// Walk takes steps in a world, at most so many, each of which pick chooses among n, then lets it come to rest. It returns the
// promise that broke, nothing if none did, and what was done. The world itself may be changed.
func Walk[W World[W, S], S fmt.Stringer](w W, steps int, pick func(n int) int) (broken string, trace []string) {
	then := func(s S) {
		if own, ok := any(w).(interface{ Do(s S) }); ok {
			own.Do(s)
			return
		}
		w = w.After(s)
	}
	for range steps {
		all := w.Steps()
		if len(all) == 0 {
			break
		}
		s := all[pick(len(all))]
		then(s)
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
		then(s)
		trace = append(trace, "  then "+s.String())
		if b := w.Check(); b != "" {
			return b, trace
		}
	}
	return "the world never comes to rest", trace
}
