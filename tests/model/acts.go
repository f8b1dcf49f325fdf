package model

import (
	"fmt"
	"slices"
	"strings"
)

// reply is what a script of the owner has answered.
type reply struct {
	answer Answer
	states []string // look
	number int64    // commit
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
		var fates []string
		re.answer, fates = s.Ingest(w.Now, r.Token, r.From, r.To, r.Batch)
		for i, fate := range fates {
			if fate == Unknown {
				w.dropped(r.Batch[i].Instance, []Element{{Tag: r.Batch[i].ID}})
			}
		}
	case "commit":
		inbox := s.Get(r.Instance).Inbox
		c := s.Commit(w.Now, r.Token, r.Turn)
		if re.answer, re.number = c.Answer, c.Number; re.answer == OK && r.Turn.Head == "" {
			w.dropped(r.Instance, inbox[:len(r.Turn.Pop)])
		}
	case "look":
		re.answer, _, re.states = s.Look(w.Now, r.Token, r.Glance)
	case "purge":
		before := s.Clone().Get(r.Instance)
		if re.answer = s.Purge(w.Now, r.Token, r.Purge); re.answer == OK {
			w.purged(r, before)
		}
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

// hear is what the sender does with the answer. A dead owner does nothing, and one that has gone back to what the
// store has does not know the instance any more.
func (w *World) hear(r Request, re reply) {
	o := &w.Owner
	if r.Token != o.Token || r.Echo || r.Script != "ingest" && r.Era != o.Era {
		return
	}
	delete(o.Busy, r.Instance)
	switch {
	case re.answer == Fenced || re.answer == RolledBack || re.answer == Conflict && r.Script == "ingest":
		w.reload()
	case re.answer == Conflict:
		o.drop(r.Instance)
	case r.Script == "ingest":
		if r.To.Seq > o.Acked.Seq {
			o.Acked = r.To
			o.Time = max(o.Time, w.Stream[r.To.Seq-1].Sent)
		}
	case r.Script == "commit":
		o.Commits = max(o.Commits, re.number)
		w.committed(r)
	case r.Script == "purge":
		o.drop(r.Instance)
	case r.Script == "look":
		w.looked(r, re.states)
	}
}

func (w *World) committed(r Request) {
	o, t := &w.Owner, r.Turn
	if w.setup.Rules.Wrong == FrontAfter && len(t.Front) > 0 {
		in := w.Store.Get(r.Instance)
		in.Inbox = append(slices.Clone(t.Front), in.Inbox...)
	}
	o.Parked[r.Instance] = r.Parked
	for _, d := range Debts(t.Execution, r.Parked.History, Place{t.Execution, uint64(len(r.Parked.History) - len(t.Events))}) {
		o.Owed[r.Instance] = append(slices.Clone(o.Owed[r.Instance]), d)
	}
	if len(t.Front) > 0 {
		p := r.Parked
		p.Execution, p.History = t.Begins, nil
		o.Parked[r.Instance] = p
	}
	for _, l := range t.Create {
		if !slices.Contains(t.Delete, l.Activity) {
			w.task(r.Instance, t.Execution, l)
		}
	}
}

func (w *World) looked(r Request, states []string) {
	for i, l := range r.Glance.Leases {
		if states[i] == Poisoned {
			w.poison(r.Instance, l.Activity)
			return
		}
		switch states[i] {
		case Waits, Cleared, MadeAgain:
			w.task(r.Instance, r.Glance.Execution, l)
		}
	}
}

func (w *World) send(r Request) {
	r.Token, r.Era = w.Owner.Token, w.Owner.Era
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

// past is the instance as the owner believes it to be: parked, or read now. One that owes
// is kept, with what it owes.
func (w *World) past(id string) Parked {
	if p, ok := w.Owner.Parked[id]; ok {
		return p
	}
	in := w.Store.Get(id)
	p := Parked{in.Head, in.Status, in.Execution, slices.Clone(in.History())}
	if in.Owes() {
		w.Owner.Parked[id], w.Owner.Owed[id] = p, Debts(in.Out.Execution, in.Histories[in.Out.Execution], in.Sent)
	}
	return p
}

// waits reports whether the instance must not turn yet: what the execution before has to say goes first.
func (w *World) waits(id string) bool {
	d := w.Owner.Owed[id]
	p := w.Owner.Parked[id]
	return len(d) > 0 && (d[0].At.Execution < p.Execution || p.Status == "ended")
}

// tell publishes the first message that an instance owes; its acknowledgement is the owner's to write down, and
// to say again with every commit and look: a look leaves the head as it is, so that a store which has forgotten one can
// not be told from one that has not.
func (w *World) tell(id string) {
	d := w.Owner.Owed[id]
	if !slices.Contains(w.Told, d[0].Effect) {
		w.Told = append(w.Told, d[0].Effect)
		slices.Sort(w.Told)
	}
	w.Owner.Paid[id] = d[0].At
	if w.Owner.Owed[id] = d[1:]; len(d) == 1 {
		delete(w.Owner.Owed, id)
	}
}

// turn decides upon the first n unread inputs, and sends the commit.
func (w *World) turn(id string, n int) {
	in := w.Store.Get(id)
	if in.Inbox[0].Kind == "purge" {
		w.purge(id, in.Inbox[0])
		return
	}
	if i := slices.IndexFunc(in.Inbox[:n], func(e Element) bool { return e.Kind == "purge" }); i > 0 {
		n = i
	}
	if in.Status == "" && in.Inbox[0].Kind != "start" {
		delete(w.Owner.Handed, id)
		w.early(id, in)
		return
	}
	p := w.past(id)
	if w.waits(id) {
		return // handed on: when it has been told
	}
	delete(w.Owner.Handed, id)
	if p.Status == "ended" {
		switch i := slices.IndexFunc(in.Inbox[:n], func(e Element) bool { return strings.HasPrefix(e.Tag, heir) }); i {
		case -1:
		case 0:
			w.inherit(id, p, in.Inbox[0])
			return
		default:
			n = i
		}
	}
	past, err := Fold(max(p.Execution, 1), p.History)
	if err != nil {
		w.Broken = err.Error()
		return
	}
	t := past.Decide(w.setup.Program, w.setup.Rules, w.Now, w.until(), in.Inbox[:n], in.Inbox[n:])
	if slices.Contains(t.Events, "observed") && turnable(in.Inbox[n:]) {
		w.Broken = "a poll is complete before everything that had arrived"
	}
	if p.Head == "" && t.Begins == 0 {
		t.Begins = 1
	}
	w.commit(id, p, t)
}

// early keeps events that came before their start for a while; what else there is was for an instance that is gone.
func (w *World) early(id string, in *Instance) {
	var pop []string
	for _, e := range in.Inbox {
		if e.Kind == "event" && e.Time+w.setup.Rules.Early > w.Now || e.Kind == "start" {
			break
		}
		pop = append(pop, e.ID)
	}
	if len(pop) > 0 {
		w.takeOut(id, Parked{}, pop...)
		return
	}
	w.send(Request{Script: "look", Instance: id, Glance: Glance{Instance: id, Next: in.Inbox[0].Time + w.setup.Rules.Early, Hold: Early}})
}

// heir begins the name of a start that takes the place of an orphan.
const heir = "heir"

// inherit begins another birth, as the next execution.
func (w *World) inherit(id string, p Parked, start Element) {
	delete(w.Owner.Paid, id)
	n := p.Execution + 1
	w.commit(id, p, Turn{
		Execution: p.Execution, Pop: []string{start.ID}, Begins: n, Parent: heir, Reborn: true, Status: "running",
		Front: []Element{{ID: fmt.Sprintf("!c%d.0", n), Kind: "start", Time: start.Time, Tag: start.Tag}},
	})
}

func (w *World) commit(id string, p Parked, t Turn) {
	t.Instance, t.Expect, t.Head, t.Sent = id, p.Head, w.fresh(), w.Owner.Paid[id]
	if t.Due != 0 {
		t.Applied = w.Owner.Acked
	}
	t.Next = w.owing(t.Next, t.Out != (Place{}) || len(w.Owner.Owed[id]) > 0 || w.setup.Retire && t.Status == "ended")
	after := Parked{t.Head, t.Status, t.Execution, append(slices.Clone(p.History), t.Events...)}
	w.send(Request{Script: "commit", Instance: id, Turn: t, Parked: after})
}

// owing is the next look of an instance that may owe messages.
func (w *World) owing(next int64, owes bool) int64 {
	if soon := w.Now + w.setup.Rules.Look; owes && (next == 0 || next > soon) {
		return soon
	}
	return next
}

// look fires the timers that are due, or else sees to the leases, and writes down what was sent.
func (w *World) look(id string) {
	delete(w.Owner.Handed, id)
	p := w.past(id)
	past, err := Fold(max(p.Execution, 1), p.History)
	if err != nil {
		w.Broken = err.Error()
		return
	}
	if w.setup.Retire && p.Status == "ended" && (len(w.Owner.Owed[id]) == 0 || w.setup.Rules.Wrong == PurgeIndebted) {
		w.remove(id, p)
		return
	}
	if t := past.Decide(w.setup.Program, w.setup.Rules, w.Now, w.until(), nil, nil); len(t.Events) > 0 {
		w.commit(id, p, t)
		return
	}
	g := Glance{Instance: id, Execution: p.Execution, Head: p.Head, Next: past.next(w.setup.Rules, w.Now), Sent: w.Owner.Paid[id]}
	g.Next = w.owing(g.Next, len(w.Owner.Owed[id]) > 0)
	for _, a := range sorted(past.Open) {
		g.Leases = append(g.Leases, Create{a, past.Open[a]})
	}
	w.send(Request{Script: "look", Instance: id, Glance: g})
}

// poison ends an activity that was claimed too often, by a turn of its own.
func (w *World) poison(id string, activity uint64) {
	p := w.past(id)
	past, err := Fold(max(p.Execution, 1), p.History)
	if err != nil || past.Open[activity] == "" {
		return // the state is another by now: the next look will tell
	}
	past.Off(activity)
	w.setup.Program(past, "poison")
	w.commit(id, p, past.Decide(w.setup.Program, w.setup.Rules, w.Now, w.until(), nil, w.Store.Get(id).Inbox))
}

// until is the time up to which the owner may decide by time.
func (w *World) until() int64 {
	if w.setup.Rules.Wrong == TimeBeforeBacklog {
		return w.Now
	}
	return min(w.Now, w.Owner.Time)
}

// behind reports whether something is due that the owner may not decide yet.
func (w *World) behind() bool {
	if w.Owner.Time >= w.Now {
		return false
	}
	for _, in := range w.Store.Instances {
		past, err := Fold(max(in.Execution, 1), in.History())
		for _, at := range past.Timers {
			if err == nil && at <= w.Now && at > w.Owner.Time {
				return true
			}
		}
	}
	return false
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
	switch a, _ := w.Store.Ack(w.Now, r.Grip); {
	case a == OK && r.Trust <= w.Now:
		w.Broken = "the ack of " + r.Grip.Effect + " was accepted after its time"
	case a == OK && w.Saved != nil: // else it is not forgotten
		w.Acked = append(w.Acked, r.Grip)
	case a == Gone:
		w.Store.Report(r.Grip.Instance, r.Grip.place(), "stopped", false)
	}
}

func (w *World) prolong(i int) {
	if w.Store.Prolong(w.Now, w.Runs[i].Grip) == OK {
		w.Runs[i].Trust = w.Now + w.setup.Rules.LeaseTTL
		return
	}
	w.Runs = slices.Delete(w.Runs, i, i+1)
}

// doubted answers for a claim that the store shows and no worker runs: its worker acknowledges again what it remembers to have
// acknowledged, and gives back what it does not know.
func (w *World) doubted(g Grip) {
	if slices.Contains(w.Acked, g) {
		w.Store.Ack(w.Now, g)
		return
	}
	w.Store.Abandon(w.Now, g, true, 0)
}

// doubtful lists the claims that the store shows after it has forgotten writes, and that no worker runs.
func (w *World) doubtful() (all []Grip) {
	if !w.forgot {
		return nil
	}
	for _, id := range w.ids() {
		leases := w.Store.Get(id).Leases
		for _, at := range places(leases) {
			l := leases[at]
			g := Grip{Instance: id, Execution: at.Execution, Activity: at.Event, Effect: l.Effect, Token: l.Token}
			if l.Token != "" && !slices.ContainsFunc(w.Runs, func(r Run) bool { return r.Grip == g }) {
				all = append(all, g)
			}
		}
	}
	return all
}
