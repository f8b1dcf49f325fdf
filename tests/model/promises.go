package model

import (
	"fmt"
	"slices"
)

// Check tells which promise the state breaks, or nothing.
func (w *World) Check() string {
	if w.Broken != "" {
		return w.Broken
	}
	for _, id := range w.ids() {
		if b := w.check(id, w.Store.Get(id)); b != "" {
			return id + ": " + b
		}
	}
	return ""
}

func (w *World) check(id string, in *Instance) string {
	past, err := Fold(in.History)
	if err != nil {
		return err.Error()
	}
	if b := w.inputs(id, in, past); b != "" {
		return b
	}
	if b := leases(in, past); b != "" {
		return b
	}
	at, listed := w.Store.Agenda[id]
	late := func(limit int64) bool { return !listed || at > max(limit, w.Now+w.setup.Rules.Soon) }
	early := in.Head == "" && len(in.Inbox) > 0 && in.Inbox[0].Kind != "start"
	switch {
	case early && !listed:
		return "inputs that came before their start, and the look is missing"
	case len(in.Inbox) > 0 && !early && late(w.Now+w.setup.Rules.Soon):
		return fmt.Sprintf("unread inputs, and the look is %s", when(listed, at))
	case len(past.Open) > 0 && late(w.Now+w.setup.Rules.Look):
		return fmt.Sprintf("outstanding activities, and the look is %s", when(listed, at))
	}
	for _, t := range past.Timers {
		if late(t) {
			return fmt.Sprintf("a timer is due at %d, and the look is %s", t, when(listed, at))
		}
	}
	return ""
}

func when(listed bool, at int64) string {
	if !listed {
		return "missing"
	}
	return fmt.Sprintf("at %d", at)
}

// inputs: what is at or before `applied` is once in history or inbox, in order; what is behind it nowhere.
func (w *World) inputs(id string, in *Instance, past *Past) string {
	taken := slices.Clone(past.Inputs)
	for _, e := range in.Inbox {
		if e.Kind != "done" {
			taken = append(taken, e.Tag)
		}
	}
	last := -1
	for _, t := range taken {
		if t == "start" {
			continue // it goes before events that came early
		}
		i := slices.IndexFunc(w.Stream, func(m Message) bool { return m.Instance == id && m.ID == t })
		if i <= last {
			return "input " + t + " is out of order or twice"
		}
		last = max(last, i)
	}
	if past.Ended {
		return ""
	}
	for i, m := range w.Stream {
		if m.Instance != id {
			continue
		}
		have, want := slices.Contains(taken, m.ID), uint64(i) < w.Store.Owner.Applied.Seq
		if want && !have {
			return "accepted input " + m.ID + " is lost"
		}
		first := slices.IndexFunc(w.Stream, func(n Message) bool { return n.Instance == id && n.ID == m.ID })
		if have && uint64(first) >= w.Store.Owner.Applied.Seq {
			return "input " + m.ID + " took effect before its position was passed"
		}
	}
	return ""
}

// leases: an outstanding activity has a lease or an unread completion, and nothing else has either lease.
func leases(in *Instance, past *Past) string {
	for _, a := range sorted(in.Leases) {
		if past.Open[a] != in.Leases[a].Effect {
			return fmt.Sprintf("lease %s without an outstanding activity", in.Leases[a].Effect)
		}
	}
	for _, a := range sorted(past.Open) {
		n := 0
		if _, ok := in.Leases[a]; ok {
			n++
		}
		for _, e := range in.Inbox {
			if e.Kind == "done" && e.Ref == a && e.Tag == past.Open[a] {
				n++
			}
		}
		if n != 1 {
			return fmt.Sprintf("activity %s has %d leases and unread completions", past.Open[a], n)
		}
	}
	return ""
}

// Finished tells what is missing from a world that has come to rest.
func (w *World) Finished() string {
	if w.Plan < len(w.setup.Plan) || int(w.Store.Owner.Applied.Seq) < len(w.Stream) {
		return "inputs were never ingested"
	}
	for _, id := range w.ids() {
		in := w.Store.Get(id)
		past, _ := Fold(in.History)
		if len(in.Inbox) > 0 && in.Status != "" {
			return id + ": inputs are never turned"
		}
		if len(past.Open)+len(past.Timers) > 0 {
			return fmt.Sprintf("%s: activities %v and timers %v never end", id, past.Open, past.Timers)
		}
	}
	return ""
}

// Fair picks the next step of a world in which nothing goes wrong any more and
// nothing is hurried, or reports that it has come to rest. Time passes last.
func (w *World) Fair() (Step, bool) {
	var last Step
	for _, s := range w.Steps() {
		if s.Optional {
			continue
		}
		if last = s; s.Name != passes {
			return s, true
		}
	}
	return last, last.do != nil
}
