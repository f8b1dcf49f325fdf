package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	past, err := Fold(max(in.Execution, 1), in.History())
	if err != nil {
		return err.Error()
	}
	if b := w.nobody(id, in); b != "" {
		return b
	}
	if b := record(in); b != "" {
		return b
	}
	if b := w.debts(in); b != "" {
		return b
	}
	if b := w.inputs(id, in, past); b != "" {
		return b
	}
	if b := leases(in, past); b != "" {
		return b
	}
	if past.Polling && !past.Ended && !turnable(in.Inbox) {
		return "the code polls, and nothing is left that would complete it"
	}
	if b := w.time(id, in); b != "" {
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
	case in.Owes() && late(w.Now+w.setup.Rules.Look):
		return fmt.Sprintf("messages are owed, and the look is %s", when(listed, at))
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

// record: an execution begins with one start, and its record tells of its history and of nothing else.
func record(in *Instance) string {
	if in.Head == "" {
		return ""
	}
	starts := 0
	for _, e := range in.Inbox {
		if e.ID == fmt.Sprintf("!c%d.0", in.Execution) || in.Execution == 1 && e.Tag == "start" {
			starts++
		}
	}
	if len(in.History()) > 0 {
		starts++
	}
	switch {
	case in.Events != len(in.History()):
		return fmt.Sprintf("the record tells of %d events, and the history has %d", in.Events, len(in.History()))
	case starts != 1:
		return fmt.Sprintf("execution %d has %d starts", in.Execution, starts)
	case in.Events == 0 && in.Inbox[0].Kind != "start":
		return fmt.Sprintf("execution %d has begun, and its start is not the first that is unread", in.Execution)
	case in.Status == "running" && in.End != "":
		return "it runs, and has the end of another birth"
	case len(in.Histories) > 2:
		return fmt.Sprintf("%d histories are kept", len(in.Histories))
	}
	return ""
}

// debts: what is owed can be told, and what is marked as sent has been.
func (w *World) debts(in *Instance) string {
	if in.Owes() && uint64(len(in.Histories[in.Out.Execution])) < in.Out.Event {
		return fmt.Sprintf("messages up to event %d of execution %d are owed, and its history is gone", in.Out.Event, in.Out.Execution)
	}
	for n, h := range in.Histories {
		for _, d := range Debts(n, h, Place{}) {
			if in.Out.Less(d.At) && n == in.Execution {
				return fmt.Sprintf("message %s is not said to be owed", d.Effect)
			}
			if !in.Sent.Less(d.At) && !slices.Contains(w.Told, d.Effect) {
				return fmt.Sprintf("message %s is said to be sent, and was not", d.Effect)
			}
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
		if e.Kind != "done" && e.Kind != "full" {
			taken = append(taken, strings.Split(e.Tag, "+")...)
		}
	}
	born := 0 // what came before another birth was the former one's
	if in.Parent != "" && len(taken) > 0 {
		born = slices.IndexFunc(w.Stream, func(m Message) bool { return m.Instance == id && m.ID == taken[0] })
	}
	last := -1
	for k, t := range taken {
		if slices.Contains(in.Spent, t) {
			return "input " + t + " of a purged instance has come back"
		}
		if strings.HasPrefix(t, "start") || k == 0 && strings.HasPrefix(t, heir) && len(in.Spent) > 0 {
			continue // it goes before events that came early, or behind a purge
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
	overflown := slices.ContainsFunc(in.Inbox, func(e Element) bool { return e.Kind == "full" }) // it will end by name
	for i, m := range w.Stream {
		if m.Instance != id || i < born || slices.Contains(in.Spent, m.ID) {
			continue
		}
		have, want := slices.Contains(taken, m.ID), uint64(i) < w.Store.Owner.Applied.Seq
		if want && !have && (!overflown || strings.HasPrefix(m.ID, "start")) {
			return "accepted input " + m.ID + " is lost"
		}
		first := slices.IndexFunc(w.Stream, func(n Message) bool { return n.Instance == id && n.ID == m.ID })
		if have && uint64(first) >= w.Store.Owner.Applied.Seq {
			return "input " + m.ID + " took effect before its position was passed"
		}
	}
	return ""
}

// time: when a timer has fired, nothing that was accepted before it was due is still to be read.
func (w *World) time(id string, in *Instance) string {
	fired := int64(0)
	for _, e := range in.History() {
		if ref, ok := strings.CutPrefix(e, "fired "); ok {
			n, _ := strconv.Atoi(ref)
			fired = max(fired, stamp(strings.Fields(in.History()[n-1])[1]))
		}
	}
	if fired == 0 {
		return ""
	}
	for _, e := range in.Inbox {
		if e.Time < fired {
			return fmt.Sprintf("a timer of %d has fired before input %s of %d, which is unread", fired, e.ID, e.Time)
		}
	}
	for _, m := range w.Stream[w.Store.Owner.Applied.Seq:] {
		if m.Instance == id && m.Sent < fired && in.Seen[m.ID] == 0 {
			return fmt.Sprintf("a timer of %d has fired before input %s, which was accepted at %d", fired, m.ID, m.Sent)
		}
	}
	return ""
}

// leases: an outstanding activity has a lease or an unread completion, and nothing else has either lease.
func leases(in *Instance, past *Past) string {
	for _, a := range places(in.Leases) {
		if a.Execution != max(in.Execution, 1) || past.Open[a.Event] != in.Leases[a].Effect {
			return fmt.Sprintf("lease %s without an outstanding activity", in.Leases[a].Effect)
		}
	}
	for _, a := range sorted(past.Open) {
		n := 0
		if _, ok := in.Leases[Place{max(in.Execution, 1), a}]; ok {
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
		past, _ := Fold(max(in.Execution, 1), in.History())
		if len(in.Inbox) > 0 && in.Status != "" {
			return id + ": inputs are never turned"
		}
		if in.Status == "ended" && w.setup.Retire {
			return id + ": it has ended and is never removed"
		}
		for n, h := range in.Histories {
			for _, d := range Debts(n, h, Place{}) {
				if !slices.Contains(w.Told, d.Effect) {
					return id + ": message " + d.Effect + " is never sent"
				}
			}
		}
		if in.Owes() {
			return id + ": messages are owed for ever"
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
