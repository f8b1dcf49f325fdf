package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// forever is how long an owner's time lasts that only a fault ends.
const forever = 1 << 40

// Clock is the moment from which others are told.
func (w *World) Clock() int64 { return w.Now }

// Text appends the state; see explore.World.
func (w *World) Text(b []byte) []byte {
	b = w.Store.text(b)
	if w.Saved != nil {
		b = w.Saved.text(append(b, "\nsaved "...))
	}
	o := &w.Owner
	b = at(num(num(append(append(b, "\nowner "...), o.Token...), o.Sent), o.Acked.Seq), o.Time)
	b = strconv.AppendBool(b, w.Store.Owner.Commits < o.Commits)
	for _, id := range slices.Sorted(maps.Keys(o.Parked)) {
		p := o.Parked[id]
		b = num(append(append(append(append(b, id...), '='), p.Head...), p.Status...), p.Execution)
		b = lines(b, p.History)
	}
	b = append(b, "\nowed"...)
	for _, id := range slices.Sorted(maps.Keys(o.Owed)) {
		b = append(append(b, ' '), id...)
		for _, d := range o.Owed[id] {
			b = place(b, d.At)
		}
	}
	b = append(b, "\npaid"...)
	for _, id := range slices.Sorted(maps.Keys(o.Paid)) {
		b = place(append(append(b, ' '), id...), o.Paid[id])
	}
	b = lines(append(b, "\ntold "...), w.Told)
	b = append(b, "\nbusy"...)
	for _, id := range slices.Sorted(maps.Keys(o.Busy)) {
		b = append(append(b, ' '), id...)
	}
	b = append(b, "\nhanded"...)
	for _, id := range slices.Sorted(maps.Keys(o.Handed)) {
		b = append(append(b, ' '), id...)
	}
	for _, r := range w.Net {
		b = strconv.AppendBool(r.text(append(b, "\nnet "...)), r.Era == o.Era)
	}
	for _, t := range w.Tasks {
		b = t.text(append(b, "\ntask "...))
	}
	runs := make([]string, len(w.Runs))
	for i, r := range w.Runs {
		runs[i] = string(at(r.Grip.text(nil), r.Trust))
	}
	b = lines(b, runs)
	for _, g := range w.Acked {
		b = g.text(append(b, "\nacked "...))
	}
	for _, m := range w.Stream {
		b = at(append(append(append(append(b, '\n'), m.Instance...), ' '), m.ID...), m.Sent)
	}
	b = w.order(b)
	l := w.Left
	for _, n := range [...]int{w.Plan, l.Rollbacks, l.Crashes, l.Resends, l.Deaths, l.Losses, l.Doubles, l.Echoes, l.Repeats, l.Ticks} {
		b = num(b, uint64(n))
	}
	return append(strconv.AppendBool(b, w.forgot), w.Broken...)
}

// order appends which inputs are older than which timers: all of the past is one moment, and that is what is left of it.
func (w *World) order(b []byte) []byte {
	for _, id := range w.ids() {
		in := w.Store.Instances[id]
		for _, e := range in.History() {
			set, ok := strings.CutPrefix(e, "timer ")
			if !ok {
				continue
			}
			at := stamp(set)
			b = strconv.AppendBool(append(b, "\ntimer "...), at > w.Owner.Time)
			for _, e := range in.Inbox {
				b = strconv.AppendBool(b, e.Time < at)
			}
			for _, m := range w.Stream {
				b = strconv.AppendBool(b, m.Sent < at)
			}
		}
	}
	return b
}

func (s *Store) text(b []byte) []byte {
	b = num(append(b, s.Owner.Token...), s.Owner.Applied.Seq)
	if s.Owner.Span < forever { // else no passing of time makes it another state
		b = at(b, s.Owner.Until)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Instances)) {
		in := s.Instances[id]
		b = append(append(append(append(b, '\n'), id...), in.Head...), in.Status...)
		b = place(place(num(num(append(append(b, in.Parent...), in.End...), in.Execution), uint64(in.Events)), in.Out), in.Sent)
		if look, ok := s.Agenda[id]; ok {
			b = at(b, look)
		}
		for _, n := range sorted(in.Histories) {
			b = lines(num(b, n), in.Histories[n])
		}
		for _, e := range in.Inbox {
			b = at(append(append(b, '\n'), e.ID...), e.Time)
		}
		for _, a := range places(in.Leases) {
			l := in.Leases[a]
			b = append(append(append(b, '\n'), l.Effect...), l.Token...)
			if l.Token != "" {
				b = at(b, l.Until)
			}
			b = num(b, uint64(l.Claims))
		}
		for _, at := range slices.SortedFunc(maps.Keys(in.Reports), byPlace) {
			b = place(append(b, " r"...), at)
		}
		b = num(lines(num(b, uint64(len(in.Seen))), in.Spent), uint64(len(in.Spent)))
	}
	return b
}

func (r *Request) text(b []byte) []byte {
	b = strconv.AppendBool(append(append(append(b, r.Script...), r.Token...), r.Instance...), r.Echo)
	b = num(num(b, r.From.Seq), r.To.Seq)
	b = append(append(append(b, r.Turn.Expect...), '>'), r.Turn.Head...)
	b = lines(lines(b, r.Turn.Pop), r.Turn.Events)
	b = place(place(num(num(b, r.Turn.Execution), r.Turn.Begins), r.Turn.Sent), r.Glance.Sent)
	for _, e := range r.Turn.Front {
		b = at(append(append(append(b, e.ID...), e.Tag...), ';'), e.Time)
	}
	b = num(at(at(at(append(b, r.Glance.Head...), r.Glance.Next), r.Turn.Next), r.Turn.Due), r.Turn.Applied.Seq)
	b = append(b, r.Glance.Hold...)
	b = lines(num(append(b, r.Purge.Head...), r.Purge.Execution), r.Purge.Pop)
	for _, l := range r.Glance.Leases {
		b = append(append(b, ' '), l.Effect...)
	}
	return b
}

func (g *Grip) text(b []byte) []byte {
	return append(append(append(append(b, g.Instance...), ' '), g.Effect...), g.Token...)
}

func at(b []byte, t int64) []byte { return strconv.AppendInt(append(b, " @"...), t, 10) }
func places(m map[Place]Lease) []Place {
	return slices.SortedFunc(maps.Keys(m), byPlace)
}

func byPlace(p, q Place) int {
	return cmp.Or(cmp.Compare(p.Execution, q.Execution), cmp.Compare(p.Event, q.Event))
}

func place(b []byte, p Place) []byte { return num(num(b, p.Execution), p.Event) }
func num(b []byte, n uint64) []byte  { return strconv.AppendUint(append(b, ' '), n, 10) }

func lines(b []byte, ll []string) []byte {
	for _, l := range ll {
		b = append(append(b, l...), ';')
	}
	return b
}
