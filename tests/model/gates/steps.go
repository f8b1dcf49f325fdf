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

// steps are those that can happen.
type steps []Step

// Steps lists what can happen now, the fair before the faulty.
func (w *World) Steps() []Step {
	var s steps
	s.fair(w)
	s.optional(w)
	s.faults(w)
	return s
}

func (s *steps) add(name string, do func(*World)) { *s = append(*s, Step{name, do}) }

// may adds a fault of which some are left.
func (s *steps) may(left int, name string, do func(*World)) {
	if left > 0 {
		s.add(name, do)
	}
}

// fair lists what must happen sooner or later.
func (s *steps) fair(w *World) {
	for i, c := range w.Calls {
		if blocked(w, i) {
			continue
		}
		s.add(c.name()+" arrives", func(w *World) { w.admit(take(&w.Calls, i), true) })
	}
	for i, c := range w.Commits {
		s.add(fmt.Sprintf("the commit of i%d arrives", c.Of), func(w *World) { w.committed(take(&w.Commits, i), true) })
	}
	for i, word := range w.Words {
		if hearable(w, word) {
			s.add(word.name()+" is received", func(w *World) { w.hear(take(&w.Words, i)) })
		}
	}
	for i, in := range w.Instances {
		if in.Applied == 0 {
			s.add(fmt.Sprintf("i%d is started", i), func(w *World) { w.push(i, "start", 1) })
		}
		s.turns(w, w.Owners[i])
		for _, t := range in.Leases {
			s.add(t+" is done", func(w *World) { w.ends(i, t, "done") })
		}
		if in.Applied == 1 && slices.Contains(w.setup.Cancels, i) {
			s.add(fmt.Sprintf("i%d is cancelled", i), func(w *World) { w.push(i, "cancel", 1) })
		}
	}
}

// free reports whether a call arrives in no order with those of the same process: a copy, and one that disowns.
func (c *Call) free() bool { return c.Echo || len(c.Leave) > 0 && c.Leave[0].Disowned }

// blocked reports whether the same process has sent another call to the same gate before: they arrive in order.
func blocked(w *World, i int) bool {
	c := w.Calls[i]
	return !c.free() && slices.ContainsFunc(w.Calls[:i], func(b Call) bool { return !b.free() && b.Gate == c.Gate && b.From == c.From && b.Era == c.Era })
}

func (s *steps) turns(w *World, o *Owner) {
	unread := w.Instances[o.Of].Inbox
	who := fmt.Sprintf("i%d", o.Of)
	if o.Turn != 0 {
		return
	}
	if len(unread)+len(o.Inputs) > 0 {
		s.add(fmt.Sprintf("turn of %s: %v %v", who, o.Inputs, unread), func(w *World) { w.Owners[o.Of].turn(w, len(unread), false, "") })
	}
	if m := o.Mem; len(unread) == 0 && m != nil && slices.ContainsFunc(m.Activities, func(a Activity) bool { return a.State == Resting }) {
		s.add("the pause of "+who+" is over", func(w *World) { w.Owners[o.Of].turn(w, 0, true, "") })
	}
}

// optional lists what may happen and need not.
func (s *steps) optional(w *World) {
	for g := range w.Gates {
		if w.Listed[g] {
			s.may(w.Left.Sweeps, fmt.Sprintf("visit of gate %d", g), func(w *World) {
				w.Left.Sweeps--
				w.sweep(g)
			})
		}
		s.may(w.Left.Clears, fmt.Sprintf("gate %d is cleared", g), func(w *World) {
			w.Left.Clears--
			w.ran = true
			w.Gates[g].Clear(w.Now)
		})
		if w.Idle[g] {
			s.may(w.Left.Unlists, fmt.Sprintf("gate %d is taken off its list", g), func(w *World) {
				w.Left.Unlists--
				w.Listed[g], w.Idle[g] = false, false
			})
		}
	}
	for i, o := range w.Owners {
		if o.Mem != nil && len(w.slots(i, o.Mem)) > 0 {
			s.may(w.Left.Asks, fmt.Sprintf("i%d asks again", i), func(w *World) {
				w.Left.Asks--
				w.Owners[i].asks(w)
			})
		}
		if n := len(w.Instances[i].Inbox); o.Turn == 0 && n > 1 {
			s.may(1, fmt.Sprintf("turn of the first input of i%d", i), func(w *World) { w.Owners[i].turn(w, 1, false, "") })
		}
	}
	s.may(w.Left.Ticks, "time passes", func(w *World) {
		w.Left.Ticks--
		w.Now += tick * 1000
	})
	if p := w.Paused; p != nil {
		if p.Mem != nil && len(w.slots(p.Of, p.Mem)) > 0 {
			s.may(w.Left.Asks, fmt.Sprintf("the former owner of i%d asks again", p.Of), func(w *World) {
				w.Left.Asks--
				w.Paused.asks(w)
			})
		}
		if n := len(w.Instances[p.Of].Inbox); p.Turn == 0 && n+len(p.Inputs) > 0 {
			s.may(1, fmt.Sprintf("turn by the former owner of i%d", p.Of), func(w *World) { w.Paused.turn(w, n, false, "") })
		}
	}
}

func (s *steps) faults(w *World) {
	for i, c := range w.Calls {
		if c.Echo || blocked(w, i) {
			continue
		}
		s.may(w.Left.Echoes, c.name()+" arrives, and a copy of it will later", func(w *World) {
			w.Left.Echoes--
			c := take(&w.Calls, i)
			w.admit(c, true)
			c.Echo = true
			w.Calls = append(w.Calls, c)
		})
		s.may(w.Left.Slow, c.name()+" arrives, and its answer does not", func(w *World) {
			w.Left.Slow--
			w.admit(take(&w.Calls, i), false)
		})
	}
	for i, c := range w.Commits {
		s.may(w.Left.Unheard, fmt.Sprintf("the commit of i%d arrives, and its answer does not", c.Of), func(w *World) {
			w.Left.Unheard--
			w.committed(take(&w.Commits, i), false)
		})
	}
	for i, word := range w.Words {
		s.may(w.Left.Losses, word.name()+" is lost", func(w *World) {
			w.Left.Losses--
			take(&w.Words, i)
		})
		if hearable(w, word) {
			s.may(w.Left.Lates, word.name()+" is received, and will be again", func(w *World) {
				w.Left.Lates--
				w.hear(w.Words[i])
			})
		}
	}
	s.ownerFaults(w)
	s.storeFaults(w)
}

func (s *steps) ownerFaults(w *World) {
	for i, o := range w.Owners {
		acquire := func(w *World) {
			in := w.Instances[i].clone()
			in.Era++
			w.Instances[i] = in
			w.Owners[i] = &Owner{Of: i, Era: in.Era}
			deaf(w, i)
		}
		s.may(w.Left.Crashes, fmt.Sprintf("the owner of i%d dies, another acquires", i), func(w *World) {
			w.Left.Crashes--
			acquire(w)
		})
		if w.Paused == nil {
			s.may(w.Left.Pauses, fmt.Sprintf("the owner of i%d is replaced, and does not know it", i), func(w *World) {
				w.Left.Pauses--
				w.Paused = w.Owners[i]
				acquire(w)
			})
		}
		if n := len(w.Instances[i].Inbox); o.Turn == 0 && n > 0 {
			s.may(w.Left.Otherwise, fmt.Sprintf("turn of i%d, decided otherwise", i), func(w *World) {
				w.Left.Otherwise--
				w.Owners[i].turn(w, n, false, "'")
			})
		}
	}
	for i, in := range w.Instances {
		for _, t := range in.Leases {
			s.may(w.Left.Fails, t+" fails", func(w *World) {
				w.Left.Fails--
				w.ends(i, t, "fail")
			})
		}
	}
}

func (s *steps) storeFaults(w *World) {
	for i, in := range w.Instances {
		if w.Saved[i] == nil {
			s.may(w.Left.Rollbacks, fmt.Sprintf("(what the store of i%d will remember)", i), func(w *World) { w.Saved[i] = in.clone() })
			continue
		}
		s.may(w.Left.Rollbacks, fmt.Sprintf("ROLLBACK of i%d", i), func(w *World) { rollback(w, i) })
	}
	for g := range w.Gates {
		if w.Kept[g] == nil {
			s.may(w.Left.Forgets, fmt.Sprintf("(what the store of gate %d will remember)", g), func(w *World) { w.Kept[g] = w.Gates[g].Clone() })
			continue
		}
		s.may(w.Left.Forgets, fmt.Sprintf("ROLLBACK of gate %d", g), func(w *World) { forgets(w, g) })
	}
}

// deaf: what an owner was answered is for itself.
func deaf(w *World, i int) {
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
func rollback(w *World, i int) {
	w.Left.Rollbacks--
	w.forgot = true
	now, then := w.Instances[i], w.Saved[i].clone()
	for _, s := range ended(w, i, now) {
		if !slices.ContainsFunc(ended(w, i, then), func(t Slot) bool { return t.Member == s.Member }) {
			w.Forgotten[s.Gate]++
		}
	}
	then.Era = now.Era
	w.Instances[i], w.Saved[i] = then, nil
}

// ended are the slots that an instance has had: a worker has acked, or the history records it.
func ended(w *World, i int, in *Instance) (all []Slot) {
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

func forgets(w *World, g int) {
	w.Left.Forgets--
	w.forgot = true
	for _, h := range w.Gates[g].Holders {
		if w.Kept[g].Holder(h.Member) < 0 {
			w.Forgotten[g]++
		}
	}
	w.Gates[g], w.Kept[g], w.Times[g] = w.Kept[g].Clone(), nil, nil
}

// take removes an element, and returns it.
func take[T any](from *[]T, i int) T {
	x := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return x
}

// hearable reports whether the receiver can take the notice now: not in the middle of a turn, and if it does not want the
// ticket, what is unread is turned first.
func hearable(w *World, word Word) bool {
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
	return o.wants(w, word.Member) || len(in.Inbox)+len(o.Inputs) == 0
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
