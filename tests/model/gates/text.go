package gates

import (
	"fmt"
	"strconv"
)

// Text appends the state; see explore.World.
func (w *World) Text(b []byte) []byte {
	for g, gate := range w.Gates {
		b = gate.text(append(b, "\ngate "...), w.setup.Rules)
		if k := w.Kept[g]; k != nil {
			b = k.text(append(b, " kept "...), w.setup.Rules)
		}
		b = strconv.AppendBool(strconv.AppendBool(b, w.Listed[g]), w.Idle[g])
		b = fmt.Appendf(b, "%v%d", w.Arrived[g], w.Forgotten[g])
		if p := w.setup.Policy; p.Rate > 0 {
			for _, at := range w.Times[g][max(0, len(w.Times[g])-p.Rate):] {
				b = strconv.AppendInt(append(b, " @"...), (at+p.RateWindow)*1000, 10)
			}
		}
	}
	for i, in := range w.Instances {
		b = in.text(append(b, "\ni "...))
		if s := w.Saved[i]; s != nil {
			b = s.text(append(b, " saved "...))
		}
		b = w.Owners[i].text(append(b, " owner "...))
	}
	if w.Paused != nil {
		b = w.Paused.text(append(b, "\npaused "...))
	}
	for _, c := range w.Calls {
		b = fmt.Appendf(append(b, "\ncall "...), "%d %d %d ~%d %v %v %v", c.Gate, c.From, c.Era, c.Turn, c.Leave, c.Enter, c.Echo)
	}
	for _, c := range w.Commits {
		b = c.Next.text(fmt.Appendf(append(b, "\ncommit "...), "%d %d ~%d ~%d %v %v", c.Of, c.Era, c.Turn, c.Expect, c.Pop, c.Leave))
	}
	for _, word := range w.Words {
		b = fmt.Appendf(b, "\nword %v", word)
	}
	return fmt.Appendf(b, "\n%v %d %v %v %s", w.Left, w.Round, w.LetIn, w.forgot, w.Broken)
}

func (g *Gate) text(b []byte, r Rules) []byte {
	at := func(ms int64) { b = strconv.AppendInt(append(b, " @"...), ms*1000, 10) }
	for _, q := range g.Queue {
		b = append(b, q.Member.Ticket...)
		if g.Force.Policy.QueueTimeout > 0 {
			at(q.Number/1000 + g.Force.Policy.QueueTimeout)
		}
		b = append(b, ' ')
	}
	b = append(b, '|')
	for _, h := range g.Holders {
		b = append(b, h.Member.Ticket...)
		at(h.Known + r.Stale)
	}
	b = append(b, '|')
	for _, a := range g.Away {
		b = fmt.Appendf(b, "%s %v", a.Member.Ticket, a.Cleared)
		at(a.Told + r.Stale)
	}
	if g.Force.Policy.Rate > 0 {
		for _, t := range g.Grants {
			at(t + g.Force.Policy.RateWindow)
		}
	}
	return b
}

func (in *Instance) text(b []byte) []byte {
	return fmt.Appendf(b, "%d ~%d %d %v %s %d %v %v", in.Era, in.Head, in.Applied, in.Inbox, in.Status, in.Stage, in.Activities, in.Leases)
}

func (o *Owner) text(b []byte) []byte {
	b = fmt.Appendf(b, "%d ~%d %d %v %v %v %s", o.Era, o.Turn, o.Await, o.Pop, o.Leave, o.Inputs, o.Knock)
	if o.Mem != nil {
		b = o.Mem.text(append(b, " mem "...))
	}
	if o.Next != nil {
		b = o.Next.text(append(b, " next "...))
	}
	return b
}
