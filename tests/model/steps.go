package model

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/message"
)

const passes = "time passes"

// steps collects the possible steps.
type steps []Step

// Steps lists the possible steps, fair ones before faults.
func (w *World) Steps() []Step {
	s := fair(w)
	s.netFaults(w)
	s.faults(w)
	return s
}

// fair lists the steps that must happen eventually, except optional ones; time passes last.
func fair(w *World) (s steps) {
	s.net(w)
	s.owner(w)
	s.workers(w)
	if w.Plan < len(w.setup.Plan) {
		in := w.setup.Plan[w.Plan]
		s.add("publish "+in.ID, func(w *World) { w.Plan++; w.Accept(in) })
	}
	if _, ok := w.next(); ok {
		s.add(passes, func(w *World) { w.Now, _ = w.next() })
	}
	return s
}

func (s *steps) add(name string, do func(*World)) { *s = append(*s, Step{Name: name, do: do}) }

// may adds a fault whose number is not used up.
func (s *steps) may(left int, name string, do func(*World)) {
	if left > 0 {
		*s = append(*s, Step{Name: name, Optional: true, do: do})
	}
}

func (s *steps) net(w *World) {
	for i := range w.Net {
		r := &w.Net[i]
		switch {
		case inLine(w, i):
		case r.reply != nil:
			s.add("the answer: "+r.String(), func(w *World) { r := w.take(i); w.receive(&r, r.reply) })
		case r.effect.Kind == core.LoadInstance || r.effect.Kind == core.ReadInbox: // its answer may arrive after any other
			s.add(r.String(), func(w *World) { w.Net[i].reply = w.arrive(&w.Net[i]) })
		default:
			s.add(r.String(), func(w *World) { r := w.take(i); w.receive(&r, w.arrive(&r)) })
		}
	}
	for i, b := range w.Doorbells {
		s.add("a doorbell of "+b.Instance, func(w *World) {
			w.Doorbells = slices.Delete(slices.Clone(w.Doorbells), i, i+1)
			w.deliver(w.Owner, core.Message{Kind: core.DoorbellsReceived, Doorbells: []message.Doorbell{b}})
		})
	}
}

// inLine reports whether the same process has an earlier call to the same limit outstanding: calls arrive in order, except copies.
func inLine(w *World, i int) bool {
	r := &w.Net[i]
	return r.effect.Kind == core.CallLimit && !r.echo && slices.ContainsFunc(w.Net[:i], func(b request) bool {
		return b.effect.Kind == core.CallLimit && !b.echo && b.token == r.token && b.effect.Call.Limit == r.effect.Call.Limit
	})
}

func (w *World) take(i int) request {
	r := w.Net[i]
	w.Net = slices.Delete(w.Net, i, i+1)
	return r
}

func (s *steps) owner(w *World) {
	t := w.Owner
	if w.Former != nil {
		s.add("the former owner finds itself fenced", func(w *World) { dies(w, w.Former) })
	}
	if o := &w.Store.Owner; o.Token != t.Token {
		s.add("the owner finds itself fenced and acquires", func(w *World) { w.acquire() })
		return
	}
	if o := &w.Store.Owner; o.Applied.Time < t.acked.Time || o.Commits < t.number {
		s.add("renewal of the ownership", func(w *World) {
			if w.Store.Renew(w.Now, w.Owner.Token, memstore.Position(w.Owner.acked), w.Owner.number) == memstore.RolledBack {
				w.acquire()
			}
		})
	}
	if !t.Waits(w.Now) {
		s.add("a timer of the owner", func(w *World) { w.deliver(w.Owner, *w.Owner.Due(&w.Shell)) })
	}
	if n := len(w.Stream); t.sent < n && !w.ingesting() {
		send := func(to int) func(*World) {
			return func(w *World) {
				w.Net = append(w.Net, request{from: w.Owner.sent, to: to, token: w.Owner.Token})
				w.Owner.sent = to
			}
		}
		s.add(fmt.Sprintf("read input %d", t.sent+1), send(t.sent+1))
		if n-t.sent > 1 {
			s.add(fmt.Sprintf("read inputs %d to %d", t.sent+1, n), send(n))
		}
	}
	due := func(at int64) bool { return at <= w.Now }
	if len(w.Within(0)) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(w.Store.Limits)), due) {
		s.add("the schedule is read", func(w *World) { w.deliver(w.Owner, core.Message{Kind: core.WakeupsDue}) })
	}
}

func (w *World) ingesting() bool {
	return slices.ContainsFunc(w.Net, func(r request) bool { return r.effect.Kind == 0 && r.token == w.Owner.Token && !r.echo })
}

func (s *steps) workers(w *World) {
	for i, g := range w.Tasks {
		s.add(fmt.Sprintf("a worker claims event %d of %s", g.Activity, g.Instance), func(w *World) {
			w.Tasks = slices.Delete(slices.Clone(w.Tasks), i, i+1)
			w.claim(g)
		})
	}
	for i, r := range w.Runs {
		s.add(fmt.Sprintf("event %d is done", r.claim.Activity), func(w *World) { w.ack(i) })
		if r.trust <= w.Now {
			continue
		}
		if at, ok := w.next(); ok && at >= r.trust {
			s.add(fmt.Sprintf("the lease of event %d is renewed", r.claim.Activity), func(w *World) { w.renew(i) })
		}
	}
	for _, g := range w.doubtful() {
		s.may(1, fmt.Sprintf("the claim of event %d is doubted", g.Activity), func(w *World) { w.doubted(g) })
	}
}

// next returns the next time that something waits for.
func (w *World) next() (at int64, ok bool) {
	sooner := func(t int64) {
		if t > w.Now && (!ok || t < at) {
			at, ok = t, true
		}
	}
	for _, t := range w.Store.Wakeups {
		sooner(t)
	}
	for _, t := range w.Store.Limits {
		sooner(t)
	}
	for _, r := range w.Runs {
		sooner(r.trust)
	}
	for _, t := range w.Owner.Timers {
		sooner(t.At)
	}
	return at, ok
}

func (s *steps) netFaults(w *World) {
	for i := range w.Net {
		r := &w.Net[i]
		if tenureOf(w, r.token) == nil || r.echo || r.reply != nil || r.effect.Kind == core.RunTurn || inLine(w, i) {
			continue
		}
		s.may(w.Left.Resends, "the reply is lost: "+r.String(), func(w *World) {
			w.Left.Resends--
			w.Lossy = w.Lossy || w.Net[i].effect.Kind != 0
			r := w.take(i)
			w.arrive(&r)
			w.lost(&r)
		})
		s.may(w.Left.Fails, "lost: "+r.String(), func(w *World) {
			w.Left.Fails--
			w.Lossy = true
			r := w.take(i)
			w.lost(&r)
		})
		if r.effect.Kind == core.LoadInstance || r.effect.Kind == core.ReadInbox || r.effect.Kind == core.PublishMessage || r.effect.Kind == core.ReadHistory {
			continue
		}
		s.may(w.Left.Echoes, "arrives, and once more later: "+r.String(), func(w *World) {
			w.Left.Echoes--
			r := w.take(i)
			again := r
			again.echo = true
			w.receive(&r, w.arrive(&r))
			w.Net = append(w.Net, again)
		})
	}
}

// lost reports to the owner that a request was not answered; an ingest is sent again.
func (w *World) lost(r *request) {
	if r.effect.Kind == 0 {
		w.Net = append(w.Net, *r)
		return
	}
	kinds := map[core.EffectKind]core.MessageKind{
		core.CommitTurn: core.CommitAnswered, core.ReconcileWith: core.Reconciled, core.RemoveInstance: core.PurgeAnswered, core.LoadInstance: core.InstanceLoaded,
		core.ReadInbox: core.InboxRead, core.SearchInbox: core.InboxRead, core.FetchHead: core.HeadRead, core.PublishMessage: core.MessagePublished,
		core.ReadHistory: core.HistoryRead, core.RewindInstance: core.RewindAnswered, core.CallLimit: core.LimitAnswered, core.SweepLimit: core.LimitSwept,
		core.ReleaseTickets: core.TicketsReleased, core.RescheduleLimit: core.LimitRescheduled, core.FindUnwanted: core.UnwantedFound,
	}
	k, answered := kinds[r.effect.Kind]
	if !answered {
		return
	}
	w.receive(r, &core.Message{Kind: k, ID: r.effect.ID, Number: r.effect.Number, Err: context.DeadlineExceeded, Body: emptyBody(k)})
}

func (s *steps) faults(w *World) {
	if w.Saved == nil {
		s.may(w.Left.Rollbacks, "(what a restart will remember)", func(w *World) { w.Saved, w.SavedRemoved = w.Store.Clone(), maps.Clone(w.Removed) })
	} else {
		s.may(w.Left.Rollbacks, "ROLLBACK", func(w *World) {
			rolledBack(w, w.Saved)
			w.Store, w.Removed, w.Saved, w.StoreRolledBack, w.Lossy = w.Saved, w.SavedRemoved, nil, true, true
			w.Left.Rollbacks--
		})
	}
	s.may(w.Left.Crashes, "the owner dies, its time passes, another acquires", func(w *World) {
		w.Left.Crashes--
		w.Lossy = true
		w.acquire()
	})
	for i, r := range w.Runs {
		s.may(w.Left.Deaths, fmt.Sprintf("the worker of event %d dies", r.claim.Activity), func(w *World) {
			w.Left.Deaths--
			w.Runs = slices.Delete(w.Runs, i, i+1)
		})
	}
	for _, g := range w.Tasks {
		s.may(w.Left.Doubles, fmt.Sprintf("a worker claims event %d, and the task will be delivered again", g.Activity), func(w *World) {
			w.Left.Doubles--
			w.claim(g)
		})
	}
	if len(w.Tasks) > 0 {
		s.may(w.Left.Losses, "the tasks stream is lost", func(w *World) { w.Left.Losses--; w.Tasks = nil })
	}
	if n := len(w.Stream); n > 0 {
		s.may(w.Left.Repeats, "published again: "+w.Stream[n-1].ID, func(w *World) { w.Left.Repeats--; w.Accept(w.Stream[n-1]) })
	}
	for i := range w.Doorbells {
		s.may(w.Left.Silent, "a doorbell is lost", func(w *World) {
			w.Left.Silent--
			w.Lossy = true
			w.Doorbells = slices.Delete(w.Doorbells, i, i+1)
		})
	}
	for _, id := range w.IDs() {
		s.may(w.Left.Dues, "the schedule names "+id, func(w *World) {
			w.Left.Dues--
			w.Store.Wakeups[id] = w.Now
			w.deliver(w.Owner, core.Message{Kind: core.WakeupsDue})
		})
	}
	s.limitFaults(w)
	s.may(w.Left.Ticks, "time passes nevertheless", func(w *World) { w.Left.Ticks--; w.Now += soon })
}
