package model

import (
	"fmt"
	"slices"
)

// reply is what a script of the owner has answered.
type reply struct {
	answer Answer
	states []string // look
}

// exec runs the script of a request that has reached the store.
//
// Positions, heads and ids alone would keep a history right between two owners; what
// the fence adds, and what is checked here, is that a former owner writes nothing at all.
func (w *World) exec(r Request) (re reply) {
	s := w.Store
	defer func() {
		if re.answer == OK && r.Token != s.Owner.Token {
			w.Broken = "a former owner has written: " + r.Script
		}
	}()
	switch r.Script {
	case "ingest":
		re.answer, _ = s.Ingest(w.Now, r.Token, r.From, r.To, r.Batch)
	case "commit":
		re.answer = s.Commit(w.Now, r.Token, r.Turn).Answer
	case "look":
		re.answer, _, re.states = s.Look(w.Now, r.Token, r.Glance)
	}
	return re
}

func (r *Request) name() string {
	if r.Script == "ingest" {
		return fmt.Sprintf("ingest %d to %d", r.From.Seq, r.To.Seq)
	}
	return r.Script
}

func (w *World) arrive(i int) {
	r := w.Net[i]
	w.Net = slices.Delete(w.Net, i, i+1)
	w.hear(r, w.exec(r))
}

// hear is what the sender does with the answer. A dead owner does nothing.
func (w *World) hear(r Request, re reply) {
	o := &w.Owner
	if r.Token != o.Token || r.Echo {
		return
	}
	delete(o.Busy, r.Instance)
	switch {
	case re.answer == Fenced || re.answer == Conflict && r.Script == "ingest":
		w.reload()
	case re.answer == Conflict:
		delete(o.Parked, r.Instance)
	case r.Script == "ingest":
		if r.To.Seq > o.Acked.Seq {
			o.Acked = r.To
		}
	case r.Script == "commit":
		o.Parked[r.Instance] = Parked{r.Turn.Head, r.History}
		for _, l := range r.Turn.Create {
			if !slices.Contains(r.Turn.Delete, l.Activity) {
				w.task(r.Instance, l)
			}
		}
	case r.Script == "look":
		for i, l := range r.Glance.Leases {
			if re.states[i] == Poisoned {
				w.poison(r.Instance, l.Activity)
				return
			}
			switch re.states[i] {
			case Waits, Cleared, MadeAgain:
				w.task(r.Instance, l)
			}
		}
	}
}

func (w *World) send(r Request) {
	r.Token = w.Owner.Token
	if r.Script != "ingest" {
		w.Owner.Busy[r.Instance] = true
	}
	w.Net = append(w.Net, r)
}

func (w *World) ingest(n int) {
	from := w.Owner.Sent
	to := from + uint64(n)
	w.Owner.Sent = to
	w.send(Request{Script: "ingest", From: w.at(from), To: w.at(to), Batch: slices.Clone(w.Stream[from:to])})
}

// past is the instance as the owner believes it to be: parked, or read now.
func (w *World) past(id string) Parked {
	if p, ok := w.Owner.Parked[id]; ok {
		return p
	}
	in := w.Store.Get(id)
	return Parked{in.Head, slices.Clone(in.History)}
}

// turn decides upon the first n unread inputs, and sends the commit.
func (w *World) turn(id string, n int) {
	delete(w.Owner.Handed, id)
	inbox := w.Store.Get(id).Inbox
	if w.Store.Get(id).Status == "" && inbox[0].Kind != "start" {
		w.send(Request{Script: "look", Instance: id, Glance: Glance{Instance: id, Next: w.Now + w.setup.Rules.Early, Hold: Early}})
		return
	}
	p := w.past(id)
	past, err := Fold(p.History)
	if err != nil {
		w.Broken = err.Error()
		return
	}
	t := past.Decide(w.setup.Program, w.setup.Rules, w.Now, inbox[:n])
	w.commit(id, p, t)
}

func (w *World) commit(id string, p Parked, t Turn) {
	t.Instance, t.Expect, t.Head = id, p.Head, w.fresh()
	w.send(Request{Script: "commit", Instance: id, Turn: t, History: append(slices.Clone(p.History), t.Events...)})
}

// look fires the timers that are due, or else sees to the leases.
func (w *World) look(id string) {
	delete(w.Owner.Handed, id)
	p := w.past(id)
	past, err := Fold(p.History)
	if err != nil {
		w.Broken = err.Error()
		return
	}
	if t := past.Decide(w.setup.Program, w.setup.Rules, w.Now, nil); len(t.Events) > 0 {
		w.commit(id, p, t)
		return
	}
	g := Glance{Instance: id, Head: p.Head, Next: past.next(w.setup.Rules, w.Now)}
	for _, a := range sorted(past.Open) {
		g.Leases = append(g.Leases, Create{a, past.Open[a]})
	}
	w.send(Request{Script: "look", Instance: id, Glance: g})
}

// poison ends an activity that was claimed too often, by a turn of its own.
func (w *World) poison(id string, activity uint64) {
	p := w.past(id)
	past, err := Fold(p.History)
	if err != nil || past.Open[activity] == "" {
		return // the state is another by now: the next look will tell
	}
	past.Off(activity)
	w.setup.Program(past, "poison")
	w.commit(id, p, past.Decide(w.setup.Program, w.setup.Rules, w.Now, nil))
}

func (w *World) claim(i int, token string) {
	g := w.Tasks[i]
	w.Tasks = slices.Delete(w.Tasks, i, i+1)
	g.Token = token
	if a, _ := w.Store.Claim(w.Now, g, g.Token); a != Yours {
		return
	}
	for _, r := range w.Runs {
		if r.Grip.Instance == g.Instance && r.Grip.Effect == g.Effect && r.Trust > w.Now && !w.forgot {
			w.Broken = "two workers hold " + g.Effect
		}
	}
	w.Runs = append(w.Runs, Run{g, w.Now + w.setup.Rules.LeaseTTL})
}

func (w *World) ack(i int) {
	r := w.Runs[i]
	w.Runs = slices.Delete(w.Runs, i, i+1)
	if a, _ := w.Store.Ack(w.Now, r.Grip); a == OK && r.Trust <= w.Now {
		w.Broken = "the ack of " + r.Grip.Effect + " was accepted after its time"
	}
}

func (w *World) prolong(i int) {
	if w.Store.Prolong(w.Now, w.Runs[i].Grip) == OK {
		w.Runs[i].Trust = w.Now + w.setup.Rules.LeaseTTL
		return
	}
	w.Runs = slices.Delete(w.Runs, i, i+1)
}
