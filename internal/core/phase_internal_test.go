package core

import (
	"slices"
	"testing"
)

// An instance can be removed from memory in every phase, no answer begins two requests, and an illegal transition fails.
func TestEveryPhaseLeadsBackToAbsent(t *testing.T) {
	for from := range phases {
		from := Phase(from)
		reached := []Phase{from}
		for i := 0; i < len(reached); i++ {
			for to := range phases {
				if to := Phase(to); legal(reached[i], to) && !slices.Contains(reached, to) {
					reached = append(reached, to)
				}
			}
		}
		if !slices.Contains(reached, Absent) || !slices.Contains(reached, idle) {
			t.Errorf("%s leads to %s only", from, reached)
		}
		for to := range phases {
			to := Phase(to)
			in := &instance{phase: from}
			err := in.transition(to)
			if legal := legal(from, to); legal != (err == nil) || !legal && in.phase != from {
				t.Errorf("from %s to %s: %v, and then %s", from, to, err, in.phase)
			}
			if from.busy() && to.busy() && err == nil {
				t.Errorf("the answer of %s begins %s", from, to)
			}
		}
	}
}
