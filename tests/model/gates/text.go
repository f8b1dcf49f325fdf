package gates

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pawlrun/pawl/internal/memlimit"
)

// Text appends the state; see explore.World.
func (w *World) Text(b []byte) []byte {
	c := w.clock()
	for g, gate := range w.Gates {
		b = gateText(gate, append(b, "\ngate "...), c)
		if k := w.Kept[g]; k != nil {
			b = gateText(k, append(b, " kept "...), c)
		}
		b = strconv.AppendBool(strconv.AppendBool(b, w.Listed[g]), w.Idle[g])
		b = fmt.Appendf(b, "%v%d", w.Arrived[g], w.Forgotten[g])
		if p := w.setup.Policy; p.Rate > 0 {
			for _, at := range w.Times[g][max(0, len(w.Times[g])-p.Rate):] {
				b = c.due(b, at+p.RateWindow)
			}
		}
	}
	for i, in := range w.Instances {
		b = in.text(append(b, "\ni "...), c)
		if s := w.Saved[i]; s != nil {
			b = s.text(append(b, " saved "...), c)
		}
		b = w.Owners[i].text(append(b, " owner "...), c)
	}
	if w.Paused != nil {
		b = w.Paused.text(append(b, "\npaused "...), c)
	}
	for _, call := range w.Calls {
		b = fmt.Appendf(append(b, "\ncall "...), "%d %d %d ~%d %v %v", call.Gate, call.From, call.Era, call.Turn, call.Enter, call.Echo)
		for _, l := range call.Leave {
			b = append(append(b, " -"...), l.Member.Ticket...)
			if l.Disowned {
				b = c.said(b, l.At)
			}
		}
		for _, since := range call.Since {
			b = c.known(b, since)
		}
	}
	for _, m := range w.Commits {
		b = m.Next.text(fmt.Appendf(append(b, "\ncommit "...), "%d %d ~%d ~%d %v %v", m.Of, m.Era, m.Turn, m.Expect, m.Pop, m.Leave), c)
	}
	for _, word := range w.Words {
		b = c.said(fmt.Appendf(b, "\nword %s %d %s %v %v", word.Kind, word.Gate, word.Member.Ticket, word.Paused, word.Own), word.At)
		b = c.known(b, word.Since)
	}
	return fmt.Appendf(b, "\n%v %d %v %v %s", w.Left, w.Round, w.LetIn, w.forgot, w.Broken)
}

// clock distinguishes moments only as far as a script or an owner can: the moment of a notice is compared with what is remembered, or will be.
type clock struct {
	now  int64   // ms
	says []int64 // the moments that notices and disowning calls in flight name, in order
}

func (w *World) clock() *clock {
	c := &clock{now: w.Now / 1000}
	for _, word := range w.Words {
		c.says = append(c.says, word.At)
	}
	for _, call := range w.Calls {
		for _, l := range call.Leave {
			if l.Disowned {
				c.says = append(c.says, l.At)
			}
		}
	}
	slices.Sort(c.says)
	c.says = slices.Compact(c.says)
	return c
}

// `said` appends the moment of a notice or of a disowning call.
func (c *clock) said(b []byte, ms int64) []byte {
	i, _ := slices.BinarySearch(c.says, ms)
	return c.past(strconv.AppendInt(append(b, " reported "...), int64(i), 10), ms)
}

// known appends a moment that a gate or a history remembers.
func (c *clock) known(b []byte, ms int64) []byte {
	if ms == 0 {
		return append(b, " never"...)
	}
	i, same := slices.BinarySearch(c.says, ms)
	return c.past(fmt.Appendf(b, " %d%v", i, same), ms)
}

// past reports whether what happens now can be at the same moment.
func (c *clock) past(b []byte, ms int64) []byte { return strconv.AppendInt(b, max(ms-c.now, -1), 10) }

// due appends when something is over, in ticks from now.
func (c *clock) due(b []byte, ms int64) []byte {
	return strconv.AppendInt(append(b, " in "...), max(0, (ms-c.now+tick-1)/tick), 10)
}

func gateText(g *memlimit.Gate, b []byte, c *clock) []byte {
	for _, q := range g.Queue {
		b = c.known(append(b, q.Member.Ticket...), q.Number/1000+1)
		if g.Force.Policy.QueueTimeout > 0 {
			b = c.due(b, q.Number/1000+g.Force.Policy.QueueTimeout)
		}
		b = append(b, ' ')
	}
	b = append(b, '|')
	for _, h := range g.Holders {
		b = c.known(append(b, h.Member.Ticket...), h.Known)
	}
	b = append(b, '|')
	for _, a := range g.Away {
		b = c.known(fmt.Appendf(b, "%s %v", a.Member.Ticket, a.Cleared), a.Told)
	}
	if g.Force.Policy.Rate > 0 {
		for _, t := range g.Grants {
			b = c.due(b, t+g.Force.Policy.RateWindow)
		}
	}
	return b
}

func (in *Instance) text(b []byte, c *clock) []byte {
	b = fmt.Appendf(b, "%d ~%d %d %v %s %d %v", in.Era, in.Head, in.Applied, in.Inbox, in.Status, in.Stage, in.Leases)
	b = c.known(b, in.Since)
	for _, a := range in.Activities {
		b = c.known(fmt.Appendf(b, " %s %d %s %d", a.Ticket, a.Gate, a.State, a.Tries), a.Since)
	}
	return b
}

func (o *Owner) text(b []byte, c *clock) []byte {
	b = c.known(fmt.Appendf(b, "%d ~%d %d %v %v %v %s", o.Era, o.Turn, o.Await, o.Pop, o.Leave, o.Inputs, o.Knock), o.Since)
	if o.Mem != nil {
		b = o.Mem.text(append(b, " mem "...), c)
	}
	if o.Next != nil {
		b = o.Next.text(append(b, " next "...), c)
	}
	return b
}
