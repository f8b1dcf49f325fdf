package gates

import (
	"slices"

	"github.com/pawlrun/pawl/internal/memlimit"
)

// Owner is what the owner of an instance has in memory.
type Owner struct {
	Of, Era int
	Mem     *Instance // nil: not loaded
	Turn    int       // the turn that is under way; 0: none
	Await   int       // calls of gates that it waits for
	Next    *Instance
	Pop     []string
	Leave   []Slot // after the commit
	Inputs  []Input
	Knock   memlimit.Kind // the verdict of the gate in front of the start
	Since   int64         // and when, if it waits
}

// Input is one of the owner's own: no inbox has it.
type Input struct{ Kind, Ticket string }

func (o *Owner) clone() *Owner {
	c := *o
	c.Inputs = slices.Clone(o.Inputs)
	if o.Next != nil {
		c.Next = o.Next.clone()
	}
	return &c
}

// forget makes the owner read the store again.
func (o *Owner) forget() { *o = Owner{Of: o.Of, Era: o.Era} }

func (o *Owner) load(w *World) {
	if o.Mem == nil {
		o.Mem = w.Instances[o.Of].clone()
	}
}

// fenced reports whether another has acquired, or the store is not as the owner assumes.
func (o *Owner) fenced(w *World) bool {
	in := w.Instances[o.Of]
	return o.Era != in.Era || o.Mem != nil && o.Mem.Head != in.Head
}

// turn decides about the first n unread inputs, and the notices of gates; it enters the gates of what it schedules.
func (o *Owner) turn(w *World, n int, timer bool, variant string) {
	o.load(w)
	unread := w.Instances[o.Of].Inbox
	program := w.setup.Programs[o.Of]
	o.Turn = w.fresh()
	if n > 0 && unread[0] == "start" && o.Mem.Status == "" && program.Start != Open && o.Knock == "" {
		o.Await = 1
		w.send(Call{Gate: program.Start, From: o.Of, Era: o.Era, Turn: o.Turn, Enter: []memlimit.Entry{{Member: w.starter(o.Of)}}})
		return
	}
	d := &decider{Instance: o.Mem.clone(), program: program, variant: variant, wrong: w.setup.Rules.Wrong}
	for _, i := range o.Inputs {
		d.input(i.Kind, i.Ticket)
	}
	o.Inputs = nil
	o.Pop = slices.Clone(unread[:n])
	for _, in := range o.Pop {
		kind, ticket := split(in)
		if kind == "start" && d.Status == "" && program.Start != Open && o.Knock != memlimit.LetIn {
			d.Status, d.Since = Pending, o.Since
			if o.Knock != memlimit.Waits {
				o.Inputs = append(o.Inputs, Input{"refused", w.starter(o.Of).Ticket})
			}
			continue
		}
		d.input(kind, ticket)
	}
	if timer {
		d.input("timer", "")
	}
	o.Next = d.Instance
	o.enter(w, d)
}

// enter calls the gates of what a turn has scheduled. What its worker has ended leaves before the commit, in the same call if there is one;
// all else after it.
func (o *Owner) enter(w *World, d *decider) {
	calls := make([]Call, w.setup.Gates)
	for _, a := range d.Activities {
		if a.State == Fresh {
			calls[a.Gate].Enter = append(calls[a.Gate].Enter, memlimit.Entry{Member: w.member(o.Of, a.Ticket)})
		}
	}
	wanted := w.slots(o.Of, d.Instance)
	o.Leave = nil
	for _, s := range w.slots(o.Of, o.Mem) {
		if slices.ContainsFunc(wanted, func(t Slot) bool { return t.Member == s.Member }) {
			continue
		}
		if slices.Contains(d.ended, s.Member.Ticket) || w.wrong(LeaveEarly) {
			calls[s.Gate].Leave = append(calls[s.Gate].Leave, memlimit.Leave{Member: s.Member})
		} else {
			o.Leave = append(o.Leave, s)
		}
	}
	o.Await = 0
	for g, c := range calls {
		c.Gate, c.From, c.Era = g, o.Of, o.Era
		if len(c.Enter) > 0 {
			o.Await++
			c.Turn = o.Turn
		}
		w.send(c)
	}
	if o.Await == 0 {
		o.commit(w)
	}
}

// answered takes the verdicts of a gate at a time, in ms; nil: the answer was lost.
func (o *Owner) answered(w *World, c Call, verdicts []memlimit.Verdict, now int64) {
	if c.Turn == 0 {
		for i, v := range verdicts {
			e := c.Enter[i]
			if e.In || v.Kind == memlimit.Waits {
				continue
			}
			word := Word{Kind: Refused, Gate: c.Gate, Member: e.Member, At: now, Own: true, Since: c.Since[i], Paused: o == w.Paused}
			if v.Kind == memlimit.LetIn {
				word.Kind = Granted
			}
			if hearable(w, word) {
				o.hears(w, word)
			} else {
				w.say(word)
			}
		}
		return
	}
	if c.Turn != o.Turn {
		return
	}
	for i, e := range c.Enter {
		kind := memlimit.Kind("") // an answer that did not come: it waits, and asks again
		if verdicts != nil {
			kind = verdicts[i].Kind
		}
		since := int64(0)
		if kind == memlimit.Waits {
			since = now
		}
		if e.Member.Place == "b" {
			if kind == "" {
				kind = memlimit.Waits
			}
			o.Knock, o.Since, o.Turn = kind, since, 0
			return
		}
		o.verdict(e.Member.Ticket, kind, since)
	}
	if o.Await--; o.Await == 0 {
		o.commit(w)
	}
}

// verdict notes the verdict of a gate on an activity that the turn schedules.
func (o *Owner) verdict(ticket string, kind memlimit.Kind, since int64) {
	for k := range o.Next.Activities {
		a := &o.Next.Activities[k]
		if a.Ticket != ticket {
			continue
		}
		a.State, a.Since = Waiting, since
		switch kind {
		case memlimit.LetIn:
			a.State = Going
		case memlimit.Waits, "":
		default:
			o.Inputs = append(o.Inputs, Input{"refused", ticket})
		}
	}
}

func (o *Owner) commit(w *World) {
	w.Commits = append(w.Commits, Commit{Of: o.Of, Era: o.Era, Turn: o.Turn, Expect: o.Mem.Head, Next: o.Next, Pop: o.Pop, Leave: o.Leave})
}

// committed carries out a commit; `heard`: the answer arrives.
func (w *World) committed(c Commit, heard bool) {
	in := w.Instances[c.Of]
	ok := c.Era == in.Era && c.Expect == in.Head && len(in.Inbox) >= len(c.Pop) && slices.Equal(in.Inbox[:len(c.Pop)], c.Pop)
	if ok {
		w.write(c, in)
	}
	o := w.speaker(c.Of, c.Era)
	if o == nil || o.Turn != c.Turn {
		return
	}
	if !ok || !heard {
		o.forget()
		if o == w.Paused {
			w.Paused = nil // it detects that it was replaced
		}
		return
	}
	o.Mem, o.Turn, o.Next, o.Pop, o.Leave, o.Knock = w.Instances[c.Of].clone(), 0, nil, nil, nil, ""
	o.Since = 0
	for _, s := range c.Leave {
		w.send(Call{Gate: s.Gate, From: c.Of, Era: c.Era, Leave: []memlimit.Leave{{Member: s.Member}}})
	}
}

func (w *World) write(c Commit, in *Instance) {
	next := c.Next.clone()
	next.Era, next.Applied, next.Head = in.Era, in.Applied, w.fresh()
	next.Inbox, next.Leases = slices.Clone(in.Inbox[len(c.Pop):]), nil
	if next.Status == Running && in.Status != Running {
		w.lawful(w.setup.Programs[c.Of].Start, w.starter(c.Of).Ticket)
	}
	for _, a := range next.Activities {
		was := in.state(a.Ticket)
		if a.State != Going {
			continue
		}
		if was == Going {
			if slices.Contains(in.Leases, a.Ticket) {
				next.Leases = append(next.Leases, a.Ticket)
			}
			continue
		}
		if was == Done {
			w.breaksf("%s runs again after its end", a.Ticket)
		}
		w.lawful(a.Gate, a.Ticket)
		next.Leases = append(next.Leases, a.Ticket)
	}
	w.Instances[c.Of] = next
}

func (w *World) lawful(gate int, ticket string) {
	if gate != Open && !slices.Contains(w.LetIn, ticket) {
		w.breaksf("%s runs and was never admitted", ticket)
	}
}

// about reports whether a notice is about the entry that the history has. An answer is, if it was so when the owner asked.
func (o *Owner) about(word Word) bool {
	since := o.Mem.since(word.Member.Ticket)
	if word.Own {
		return word.Since == since
	}
	return word.At > since && since != 0
}

// `hears` takes a notice. The owner disowns a ticket that nothing wants only when its memory is what the store has, and
// nothing is unread (see hearable). The call to the gate that follows may be carried out much later.
func (o *Owner) hears(w *World, word Word) {
	o.load(w)
	ticket := word.Member.Ticket
	kind := "granted"
	if word.Kind == Refused {
		kind = "refused"
	}
	wanted := o.wants(w, word.Member)
	switch waits := o.Mem.state(ticket) == Waiting; {
	case waits && (o.about(word) || w.wrong(WordTimeless)):
		o.Inputs = append(o.Inputs, Input{kind, ticket})
	case waits && word.Own: // it has entered anew since, and that was answered
	case waits:
		w.send(Call{Gate: word.Gate, From: o.Of, Era: o.Era, Enter: []memlimit.Entry{{Member: word.Member}}, Since: []int64{o.Mem.since(ticket)}})
	case w.wrong(GrantTwice) && o.Mem.state(ticket) == Done:
		o.Inputs = append(o.Inputs, Input{kind, ticket})
	case wanted || w.wrong(UnknownIgnored):
	case o.fenced(w) && !w.wrong(DisownBlind):
		o.forget()
		if o == w.Paused {
			w.Paused = nil // it detects that it was replaced
		}
	default:
		o.Knock, o.Since = "", 0 // an instance that is not there is not kept in memory
		w.send(Call{Gate: word.Gate, From: o.Of, Era: o.Era, Leave: []memlimit.Leave{{Member: word.Member, Disowned: true, At: word.At}}})
	}
}

// wants reports whether the instance wants a ticket, by the state that its owner has.
func (o *Owner) wants(w *World, m memlimit.Member) bool {
	return slices.ContainsFunc(w.slots(o.Of, o.Mem), func(s Slot) bool { return s.Member == m })
}

// asks goes to the gates again for every ticket that is wanted.
func (o *Owner) asks(w *World) {
	if o.fenced(w) && o != w.Paused {
		o.forget()
	}
	o.load(w)
	if w.wrong(NeverAsks) {
		return
	}
	calls := make([]Call, w.setup.Gates)
	for _, s := range w.slots(o.Of, o.Mem) {
		c := &calls[s.Gate]
		c.Enter, c.Since = append(c.Enter, memlimit.Entry{Member: s.Member, In: s.In}), append(c.Since, o.Mem.since(s.Member.Ticket))
	}
	for g, c := range calls {
		c.Gate, c.From, c.Era = g, o.Of, o.Era
		w.send(c)
	}
}
