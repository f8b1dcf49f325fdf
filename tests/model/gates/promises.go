package gates

import (
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/memlimit"
)

// Check returns the promise that the state breaks, or nothing.
func (w *World) Check() string {
	if w.Broken != "" {
		return w.Broken
	}
	inside := make([]int, len(w.Gates))
	for i, in := range w.Instances {
		if g := w.setup.Programs[i].Start; g != Open && in.Status == Running {
			inside[g]++
			if b := w.holds(g, w.starter(i)); b != "" {
				return b
			}
		}
		for _, a := range in.Activities {
			if a.Gate == Open {
				continue
			}
			m := w.member(i, a.Ticket)
			if slices.Contains(in.Leases, a.Ticket) {
				inside[a.Gate]++
				if b := w.holds(a.Gate, m); b != "" {
					return b
				}
			}
			if g := w.Gates[a.Gate]; a.State == Waiting && !w.forgot && slices.Contains(w.Arrived[a.Gate], a.Ticket) &&
				g.Holder(m) < 0 && g.Waiter(m) < 0 && g.Turned(m) < 0 {
				return a.Ticket + " waits, and has lost its place"
			}
		}
	}
	for g, gate := range w.Gates {
		if b := gate.Check(); b != "" {
			return b
		}
		if c := gate.Force.Policy.Concurrency; c > 0 && inside[g] > c+w.Forgotten[g] {
			return fmt.Sprintf("%d run behind a gate that admits %d", inside[g], c)
		}
	}
	return ""
}

// holds: a member that runs is a holder, unless a store has been rolled back: then only the number of those that run is checked.
func (w *World) holds(gate int, m memlimit.Member) string {
	if w.forgot || w.Gates[gate].Holder(m) >= 0 {
		return ""
	}
	return m.Ticket + " runs, and its slot is free for another"
}

const (
	visits = 3 // rounds in which the gates are visited and no instance asks again: none is leaked after these
	rounds = 12
)

// Fair picks the next step of a world in which nothing goes wrong any more, or reports that it has come to rest. When all is
// quiet the gates are visited, and later the instances ask again.
func (w *World) Fair() (Step, bool) {
	if w.Paused != nil {
		return Step{"the former owner finds itself fenced", func(w *World) { w.Paused = nil }}, true
	}
	var s steps
	if s.fair(w); len(s) > 0 {
		return s[0], true
	}
	if w.Round == rounds {
		return Step{}, false
	}
	return Step{"round", func(w *World) { w.round() }}, true
}

func (w *World) round() {
	w.Round++
	w.Now += 2 * tick * 1000
	if w.Round == visits+1 {
		w.leaks()
	}
	for i, o := range w.Owners {
		if o.fenced(w) {
			o.forget() // a renewal of its ownership fails
		}
		o.load(w)
		if w.Round > visits {
			o.asks(w)
		}
		w.Owners[i] = o
	}
	for g := range w.Gates {
		if w.Listed[g] {
			w.sweep(g)
		}
	}
}

// leaks looks for slots that no instance requires, and grants that were not taken up.
func (w *World) leaks() {
	for g, gate := range w.Gates {
		if !w.Listed[g] && w.Left.Unlists < w.setup.Faults.Unlists {
			continue // until a member enters it again
		}
		var all []memlimit.Member
		for _, h := range gate.Holders {
			all = append(all, h.Member)
		}
		for _, a := range gate.Away {
			all = append(all, a.Member)
		}
		for _, m := range all {
			i := instance(m)
			if !slices.ContainsFunc(w.slots(i, w.Instances[i]), func(s Slot) bool { return s.Member == m && s.In }) {
				w.breaksf("%s is leaked: two visits have not brought its word home", m.Ticket)
			}
		}
	}
}

// Finished returns what is missing from a world that has come to rest.
func (w *World) Finished() string {
	for i, in := range w.Instances {
		if in.Status != Ended || len(in.Inbox) > 0 {
			return fmt.Sprintf("i%d never ends", i)
		}
	}
	for g, gate := range w.Gates {
		if len(gate.Queue)+len(gate.Holders)+len(gate.Away) > 0 && w.Listed[g] {
			return fmt.Sprintf("gate %d is never empty", g)
		}
	}
	return ""
}

// Clock is the moment to which others are relative, in the text's unit.
func (w *World) Clock() int64 { return w.Now }
