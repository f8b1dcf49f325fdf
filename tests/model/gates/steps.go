package gates

import (
	"fmt"
	"slices"
	"strings"
)

func split(in string) (kind, ticket string) {
	kind, ticket, _ = strings.Cut(in, " ")
	return kind, ticket
}

// steps are those that can happen in the world.
type steps struct{ *World }

// Steps lists what can happen now, the fair before the faulty.
func (w *World) Steps() []Step {
	all := steps{w}.fair()
	may := func(left int, name string, do func(*World)) {
		if left > 0 {
			all = append(all, Step{name, do})
		}
	}
	steps{w}.optional(may)
	steps{w}.faults(may)
	return all
}

// fair lists what must happen sooner or later.
func (w steps) fair() (all []Step) {
	add := func(name string, do func(*World)) { all = append(all, Step{name, do}) }
	for i, c := range w.Calls {
		if w.behind(i) {
			continue
		}
		add(c.name()+" arrives", func(w *World) { w.admit(w.takeCall(i), true) })
	}
	for i, c := range w.Commits {
		add(fmt.Sprintf("the commit of i%d arrives", c.Of), func(w *World) { w.committed(w.takeCommit(i), true) })
	}
	for i, word := range w.Words {
		if w.hearable(word) {
			add(word.name()+" is received", func(w *World) { w.hear(w.takeWord(i)) })
		}
	}
	for i, in := range w.Instances {
		if in.Applied == 0 {
			add(fmt.Sprintf("i%d is started", i), func(w *World) { w.push(i, "start", 1) })
		}
		w.turns(add, w.Owners[i])
		for _, t := range in.Leases {
			add(t+" is done", func(w *World) { w.ends(i, t, "done") })
		}
		if in.Applied == 1 && slices.Contains(w.setup.Cancels, i) {
			add(fmt.Sprintf("i%d is cancelled", i), func(w *World) { w.push(i, "cancel", 1) })
		}
	}
	return all
}

// free reports whether a call arrives in no order with those of the same process: a copy, and one that disowns.
func (c *Call) free() bool { return c.Echo || len(c.Leave) > 0 && c.Leave[0].Disowned }

// behind reports whether the same process has sent another call to the same gate before: they arrive in order.
func (w steps) behind(i int) bool {
	c := w.Calls[i]
	return !c.free() && slices.ContainsFunc(w.Calls[:i], func(b Call) bool { return !b.free() && b.Gate == c.Gate && b.From == c.From && b.Era == c.Era })
}

func (w steps) turns(add func(string, func(*World)), o *Owner) {
	unread := w.Instances[o.Of].Inbox
	who := fmt.Sprintf("i%d", o.Of)
	if o.Turn != 0 {
		return
	}
	if len(unread)+len(o.Inputs) > 0 {
		add(fmt.Sprintf("turn of %s: %v %v", who, o.Inputs, unread), func(w *World) { w.Owners[o.Of].turn(w, len(unread), false, "") })
	}
	if m := o.Mem; len(unread) == 0 && m != nil && slices.ContainsFunc(m.Activities, func(a Activity) bool { return a.State == Resting }) {
		add("the pause of "+who+" is over", func(w *World) { w.Owners[o.Of].turn(w, 0, true, "") })
	}
}

// optional lists what may happen and need not.
func (w steps) optional(may func(int, string, func(*World))) {
	for g := range w.Gates {
		if w.Listed[g] {
			may(w.Left.Sweeps, fmt.Sprintf("visit of gate %d", g), func(w *World) {
				w.Left.Sweeps--
				w.sweep(g)
			})
		}
		may(w.Left.Clears, fmt.Sprintf("gate %d is cleared", g), func(w *World) {
			w.Left.Clears--
			w.ran = true
			w.Gates[g].Clear(w.Now)
		})
		if w.Idle[g] {
			may(w.Left.Unlists, fmt.Sprintf("gate %d is taken off its list", g), func(w *World) {
				w.Left.Unlists--
				w.Listed[g], w.Idle[g] = false, false
			})
		}
	}
	for i, o := range w.Owners {
		if o.Mem != nil && len(w.slots(i, o.Mem)) > 0 {
			may(w.Left.Asks, fmt.Sprintf("i%d asks again", i), func(w *World) {
				w.Left.Asks--
				w.Owners[i].asks(w)
			})
		}
		if n := len(w.Instances[i].Inbox); o.Turn == 0 && n > 1 {
			may(1, fmt.Sprintf("turn of the first input of i%d", i), func(w *World) { w.Owners[i].turn(w, 1, false, "") })
		}
	}
	may(w.Left.Ticks, "time passes", func(w *World) {
		w.Left.Ticks--
		w.Now += tick * 1000
	})
	if p := w.Paused; p != nil {
		if p.Mem != nil && len(w.slots(p.Of, p.Mem)) > 0 {
			may(w.Left.Asks, fmt.Sprintf("the former owner of i%d asks again", p.Of), func(w *World) {
				w.Left.Asks--
				w.Paused.asks(w)
			})
		}
		if n := len(w.Instances[p.Of].Inbox); p.Turn == 0 && n+len(p.Inputs) > 0 {
			may(1, fmt.Sprintf("turn by the former owner of i%d", p.Of), func(w *World) { w.Paused.turn(w, n, false, "") })
		}
	}
}

func (w steps) faults(may func(int, string, func(*World))) {
	for i, c := range w.Calls {
		if c.Echo || w.behind(i) {
			continue
		}
		may(w.Left.Echoes, c.name()+" arrives, and a copy of it will later", func(w *World) {
			w.Left.Echoes--
			c := w.takeCall(i)
			w.admit(c, true)
			c.Echo = true
			w.Calls = append(w.Calls, c)
		})
		may(w.Left.Slow, c.name()+" arrives, and its answer does not", func(w *World) {
			w.Left.Slow--
			w.admit(w.takeCall(i), false)
		})
	}
	for i, c := range w.Commits {
		may(w.Left.Unheard, fmt.Sprintf("the commit of i%d arrives, and its answer does not", c.Of), func(w *World) {
			w.Left.Unheard--
			w.committed(w.takeCommit(i), false)
		})
	}
	for i, word := range w.Words {
		may(w.Left.Losses, word.name()+" is lost", func(w *World) {
			w.Left.Losses--
			w.takeWord(i)
		})
		if w.hearable(word) {
			may(w.Left.Lates, word.name()+" is received, and will be again", func(w *World) {
				w.Left.Lates--
				w.hear(w.Words[i])
			})
		}
	}
	w.ownerFaults(may)
	w.storeFaults(may)
}

func (w steps) ownerFaults(may func(int, string, func(*World))) {
	for i, o := range w.Owners {
		acquire := func(w *World) {
			in := w.Instances[i].clone()
			in.Era++
			w.Instances[i] = in
			w.Owners[i] = &Owner{Of: i, Era: in.Era}
			steps{w}.deaf(i)
		}
		may(w.Left.Crashes, fmt.Sprintf("the owner of i%d dies, another acquires", i), func(w *World) {
			w.Left.Crashes--
			acquire(w)
		})
		if w.Paused == nil {
			may(w.Left.Pauses, fmt.Sprintf("the owner of i%d is replaced, and does not know it", i), func(w *World) {
				w.Left.Pauses--
				w.Paused = w.Owners[i]
				acquire(w)
			})
		}
		if n := len(w.Instances[i].Inbox); o.Turn == 0 && n > 0 {
			may(w.Left.Otherwise, fmt.Sprintf("turn of i%d, decided otherwise", i), func(w *World) {
				w.Left.Otherwise--
				w.Owners[i].turn(w, n, false, "'")
			})
		}
	}
	for i, in := range w.Instances {
		for _, t := range in.Leases {
			may(w.Left.Fails, t+" fails", func(w *World) {
				w.Left.Fails--
				w.ends(i, t, "fail")
			})
		}
	}
}

func (w steps) storeFaults(may func(int, string, func(*World))) {
	for i, in := range w.Instances {
		if w.Saved[i] == nil {
			may(w.Left.Rollbacks, fmt.Sprintf("(what the store of i%d will remember)", i), func(w *World) { w.Saved[i] = in.clone() })
			continue
		}
		may(w.Left.Rollbacks, fmt.Sprintf("ROLLBACK of i%d", i), func(w *World) { steps{w}.rollback(i) })
	}
	for g := range w.Gates {
		if w.Kept[g] == nil {
			may(w.Left.Forgets, fmt.Sprintf("(what the store of gate %d will remember)", g), func(w *World) { w.Kept[g] = w.Gates[g].Clone() })
			continue
		}
		may(w.Left.Forgets, fmt.Sprintf("ROLLBACK of gate %d", g), func(w *World) { steps{w}.forgets(g) })
	}
}

// deaf: what an owner was answered is for itself.
func (w steps) deaf(i int) {
	paused := w.Paused != nil && w.Paused.Of == i && w.Paused.Era == w.Owners[i].Era-1
	for k := range w.Words {
		if word := &w.Words[k]; word.Own && !word.Paused && instance(word.Member) == i {
			word.Paused = true
		}
	}
	if !paused {
		w.Words = slices.DeleteFunc(w.Words, func(word Word) bool { return word.Own && word.Paused && instance(word.Member) == i })
	}
}

// rollback: an instance that had ended wants its slot again, and others have been admitted in its place. It may have it at once, if a
// late notice of its first life has put it there.
func (w steps) rollback(i int) {
	w.Left.Rollbacks--
	w.forgot = true
	now, then := w.Instances[i], w.Saved[i].clone()
	for _, s := range w.ended(i, now) {
		if !slices.ContainsFunc(w.ended(i, then), func(t Slot) bool { return t.Member == s.Member }) {
			w.Forgotten[s.Gate]++
		}
	}
	then.Era = now.Era
	w.Instances[i], w.Saved[i] = then, nil
}

// ended are the slots that an instance has had: a worker has acked, or the history records it.
func (w steps) ended(i int, in *Instance) (all []Slot) {
	if g := w.setup.Programs[i].Start; g != Open && in.Status == Ended {
		all = append(all, Slot{g, w.starter(i), true})
	}
	for _, a := range in.Activities {
		m := w.member(i, a.Ticket)
		if a.Gate != Open && (a.State == Done || a.State == Going && !in.runs(m)) {
			all = append(all, Slot{a.Gate, m, true})
		}
	}
	return all
}

func (w steps) forgets(g int) {
	w.Left.Forgets--
	w.forgot = true
	for _, h := range w.Gates[g].Holders {
		if w.Kept[g].Holder(h.Member) < 0 {
			w.Forgotten[g]++
		}
	}
	w.Gates[g], w.Kept[g], w.Times[g] = w.Kept[g].Clone(), nil, nil
}

func (w *World) takeCall(i int) Call {
	c := w.Calls[i]
	w.Calls = slices.Delete(w.Calls, i, i+1)
	return c
}

func (w *World) takeCommit(i int) Commit {
	c := w.Commits[i]
	w.Commits = slices.Delete(w.Commits, i, i+1)
	return c
}

func (w *World) takeWord(i int) Word {
	word := w.Words[i]
	w.Words = slices.Delete(w.Words, i, i+1)
	return word
}

// hearable reports whether the receiver can take the notice now: not in the middle of a turn, and if it does not want the
// ticket, what is unread is turned first.
func (w steps) hearable(word Word) bool {
	if word.Kind == Asked {
		return true
	}
	i := instance(word.Member)
	o := w.Owners[i]
	if word.Paused {
		if o = w.Paused; o == nil || o.Of != i {
			return true // it falls into nothing
		}
	}
	if o.Turn != 0 {
		return false
	}
	in := w.Instances[i]
	if o.Mem == nil {
		o = &Owner{Of: i, Mem: in}
	}
	return o.wants(w.World, word.Member) || len(in.Inbox)+len(o.Inputs) == 0
}

func (w *World) hear(word Word) {
	switch o := w.Owners[instance(word.Member)]; {
	case word.Kind == Asked:
		w.check(word)
	case !word.Paused:
		o.hears(w, word)
	case w.Paused != nil && w.Paused.Of == instance(word.Member):
		w.Paused.hears(w, word)
	}
}

func (w *World) push(i int, input string, n int) {
	in := w.Instances[i].clone()
	in.Inbox, in.Applied = append(in.Inbox, input), in.Applied+n
	w.Instances[i] = in
}

// ends is the ack of a worker: the lease goes and the completion comes, in one.
func (w *World) ends(i int, ticket, how string) {
	input := how + " " + ticket
	if attempt := w.Instances[i].attempt(ticket); attempt != "" {
		input += "/" + attempt
	}
	w.push(i, input, 0)
	in := w.Instances[i]
	in.Leases = slices.DeleteFunc(in.Leases, func(t string) bool { return t == ticket })
}

func (c *Call) name() string {
	var b strings.Builder
	fmt.Fprintf(&b, "i%d (era %d) to gate %d:", c.From, c.Era, c.Gate)
	for _, l := range c.Leave {
		b.WriteString(map[bool]string{false: " -", true: " disowns "}[l.Disowned] + l.Member.Ticket)
	}
	for _, e := range c.Enter {
		b.WriteString(map[bool]string{false: " +", true: " ="}[e.In] + e.Member.Ticket)
	}
	if c.Echo {
		b.WriteString(" (copy)")
	}
	return b.String()
}

func (w *Word) name() string {
	s := fmt.Sprintf("word that %s is %s", w.Member.Ticket, w.Kind)
	if w.Paused {
		s += ", for the former owner,"
	}
	return s
}
