package model

import (
	"fmt"
	"slices"
	"strings"
)

// Purge is what the owner wants removed: an instance that has ended.
type Purge struct {
	Instance  string
	Execution uint64 // the current one; the one before it goes too
	Head      string
	Pop       []string // ids at the head of the inbox, up to the purge itself; none: its retention is over
}

// Purge removes an instance with all that it has but the ids of the messages taken. What came behind the purge stays, a
// start among it in front.
func (s *Store) Purge(now int64, token string, p Purge) Answer {
	if s.fenced(now, token) {
		return Fenced
	}
	in := s.Get(p.Instance)
	if in.Head != p.Head && s.Rules.Wrong != PurgeBlind || !s.poppable(in, p.Pop) {
		return Conflict
	}
	in = s.make(p.Instance)
	rest := slices.Clone(in.Inbox[min(len(p.Pop), len(in.Inbox)):])
	start := slices.IndexFunc(rest, func(e Element) bool { return e.Kind == "start" })
	switch {
	case s.Rules.Wrong == PurgeDropsRest:
		rest = nil
	case start > 0 && s.Rules.Wrong != PurgeLeavesStart:
		e := rest[start]
		rest = slices.Insert(slices.Delete(rest, start, start+1), 0, e)
	}
	in.Inbox, in.Record = rest, Record{}
	for n := max(p.Execution, 2) - 1; n <= p.Execution; n++ {
		if n == p.Execution || s.Rules.Wrong != PurgeLeavesPast {
			delete(in.Histories, n)
		}
		if s.Rules.Wrong != PurgeLeavesReports {
			in.dropReports(n)
		}
	}
	if s.Rules.Wrong == PurgeForgetsIDs {
		clear(in.Seen)
	}
	if s.blind(p.Instance, 0); len(rest) > 0 && s.Rules.Wrong != PurgeUnseen {
		s.blind(p.Instance, now)
	}
	return OK
}

// Report notes how a cancelled activity has ended, once only where nothing is noted. Of an instance that is not there nothing is.
func (s *Store) Report(id string, at Place, text string, once bool) Answer {
	in := s.Get(id)
	if s.Rules.Wrong != ReportBlind && (in.Head == "" || at.Execution > in.Execution || at.Execution+1 < in.Execution) {
		return Gone
	}
	in = s.make(id)
	if _, noted := in.Reports[at]; !noted || !once {
		in.Reports[at] = text
	}
	return OK
}

func (in *Instance) dropReports(execution uint64) {
	for at := range in.Reports {
		if at.Execution == execution {
			delete(in.Reports, at)
		}
	}
}

// forced begins the name of a purge that an instance which runs is not spared.
const forced = "kill"

// purge does what the purge at the head of an inbox asks for, or the next step to it.
func (w *World) purge(id string, ask Element) {
	p := w.past(id)
	wrong := w.setup.Rules.Wrong
	switch {
	case p.Status == "ended" && w.waits(id) && wrong != PurgeIndebted:
		return // handed on: when it has been told
	case p.Status == "ended" || p.Status == "running" && strings.HasPrefix(ask.Tag, forced) && wrong == PurgeRunning:
		w.remove(id, p, ask.ID)
	case p.Status == "running" && strings.HasPrefix(ask.Tag, forced):
		w.endByName(id, p)
	default: // it runs, and is not to be ended; or there is nobody
		w.takeOut(id, p, ask.ID)
	}
	delete(w.Owner.Handed, id)
}

// takeOut drops what is unread, and nothing else happens.
func (w *World) takeOut(id string, p Parked, pop ...string) {
	w.send(Request{Script: "commit", Instance: id, Parked: p, Turn: Turn{
		Instance: id, Execution: p.Execution, Expect: p.Head, Pop: pop, Next: w.asBefore(id, p),
	}})
}

// dropped remembers what was taken out unread: a purge that is refused, what nobody came for, and what was for nobody.
func (w *World) dropped(id string, es []Element) {
	in := w.Store.Get(id)
	for _, e := range es {
		if in.Spent = append(in.Spent, e.Tag); e.Kind == "full" {
			w.spend(id, in)
		}
	}
}

// remove sends the purge of an instance; popped is what asked for it, if something did.
func (w *World) remove(id string, p Parked, popped ...string) {
	w.send(Request{Script: "purge", Instance: id, Purge: Purge{Instance: id, Execution: p.Execution, Head: p.Head, Pop: popped}})
}

// endByName ends an instance that runs without asking its program; the purge stays in the inbox.
func (w *World) endByName(id string, p Parked) {
	past, err := Fold(max(p.Execution, 1), p.History)
	if err != nil {
		w.Broken = err.Error()
		return
	}
	var pop []string
	if past.n == 0 { // its start has not been turned
		first := w.Store.Get(id).Inbox[0]
		if pop = []string{first.ID}; first.Kind != "start" {
			w.Broken = "the purge of an execution that has no start"
			return
		}
		_ = past.record("in %s @%d", first.Tag, first.Time)
	}
	past.End()
	t := past.Decide(w.setup.Program, w.setup.Rules, w.Now, 0, nil, nil)
	t.Pop = pop
	w.commit(id, p, t)
}

// asBefore is the next look of an instance whose history stays as it is, and whose record is not written: what was sent is
// left for a look to say.
func (w *World) asBefore(id string, p Parked) int64 {
	past, err := Fold(max(p.Execution, 1), p.History)
	if err != nil {
		return w.Now
	}
	_, paid := w.Owner.Paid[id]
	return w.owing(past.next(w.setup.Rules, w.Now), len(w.Owner.Owed[id]) > 0 || paid)
}

// purged checks what a purge has left, and remembers whose the inputs were that are gone with it.
func (w *World) purged(r Request, before *Instance) {
	in := w.Store.Get(r.Instance)
	if before.Head != "" && before.Status != "ended" {
		w.Broken = "an instance that runs was purged"
	}
	for _, n := range sorted(before.Histories) {
		for _, d := range Debts(n, before.Histories[n], Place{}) {
			if !slices.Contains(w.Told, d.Effect) {
				w.Broken = "message " + d.Effect + " was never sent, and its instance is purged"
			}
		}
	}
	behind := before.Inbox[min(len(r.Purge.Pop), len(before.Inbox)):]
	for _, e := range behind {
		if !slices.ContainsFunc(in.Inbox, func(l Element) bool { return l.ID == e.ID }) {
			w.Broken = fmt.Sprintf("%s came behind the purge, and is lost", e.Tag)
		}
	}
	w.spend(r.Instance, in)
}

// spend remembers all that was ingested and is not unread.
func (w *World) spend(id string, in *Instance) {
	for _, m := range w.Stream[:w.Store.Owner.Applied.Seq] {
		left := slices.ContainsFunc(in.Inbox, func(e Element) bool { return e.Tag == m.ID })
		if m.Instance == id && !left && !slices.Contains(in.Spent, m.ID) {
			in.Spent = append(in.Spent, m.ID)
		}
	}
}

// nobody: where there is no instance, nothing of one is left, and the start that has come is first.
func (w *World) nobody(id string, in *Instance) string {
	_, listed := w.Store.Agenda[id]
	switch {
	case in.Head != "":
		return ""
	case len(in.Histories) > 0:
		return "there is no instance, and a history is left"
	case len(in.Leases) > 0:
		return "there is no instance, and a lease is left"
	case len(in.Reports) > 0:
		return "there is no instance, and a report is left"
	case len(in.Inbox) == 0 && listed:
		return "there is no instance, and it is on the agenda"
	case slices.IndexFunc(in.Inbox, func(e Element) bool { return e.Kind == "start" }) > 0:
		return "there is no instance, and its start is not the first that is unread"
	}
	return ""
}
