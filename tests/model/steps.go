package model

import (
	"fmt"
	"slices"
)

const passes = "time passes"

// Steps lists what can happen now, the fair before the faulty.
func (w *World) Steps() []Step {
	var all []Step
	add := func(name string, do func(*World)) { all = append(all, Step{Name: name, do: do}) }
	may := func(name string, do func(*World)) { all = append(all, Step{Name: name, Optional: true, do: do}) }
	w.netSteps(add)
	w.ownerSteps(add, may)
	w.workerSteps(add)
	for _, g := range w.doubtful() {
		may("the claim of "+g.Effect+" is doubted", func(w *World) { w.doubted(g) })
	}
	if w.Plan < len(w.setup.Plan) {
		m := w.setup.Plan[w.Plan]
		add("publish "+m.ID, func(w *World) { w.Plan++; w.publish(m) })
	}
	if w.later() {
		add(passes, func(w *World) { w.Now++ })
	}
	w.faults(func(left int, name string, do func(*World)) {
		if left > 0 {
			may(name, do)
		}
	})
	return all
}

func (w *World) netSteps(add func(string, func(*World))) {
	for i, r := range w.Net {
		add(r.name()+" arrives", func(w *World) { w.arrive(i) })
	}
}

func (w *World) ownerSteps(add, may func(string, func(*World))) {
	o := &w.Owner
	if w.Store.fenced(w.Now, o.Token) && (w.Store.Owner.Token == "" || w.Store.Owner.Until <= w.Now || w.Store.Owner.Token == o.Token || w.forgot) {
		add("the owner finds itself fenced and acquires", func(w *World) {
			w.Store.Owner.Until = min(w.Store.Owner.Until, w.Now) // it waits until it may
			w.acquire()
		})
		return
	}
	if w.Store.Owner.Until <= w.Now+1 || w.Store.Owner.Applied.Time < o.Acked.Time && w.setup.Rules.Wrong != NoApplied || w.Store.Owner.Commits < o.Commits && w.setup.Rules.Wrong != NoApplied {
		add("renewal of the ownership", func(w *World) {
			if w.Store.Renew(w.Now, w.Owner.Token, w.Owner.Acked, w.Owner.Commits) == RolledBack {
				w.reload()
			}
		})
	}
	for _, id := range w.ids() {
		if d := o.Owed[id]; len(d) > 0 {
			add(fmt.Sprintf("%s tells %s", id, d[0].Effect), func(w *World) { w.tell(id) })
		}
	}
	if w.inflight() >= w.setup.Pipe {
		return
	}
	if int(o.Sent) < len(w.Stream) {
		add(fmt.Sprintf("send ingest %d", o.Sent+1), func(w *World) { w.ingest(1) })
		if len(w.Stream)-int(o.Sent) > 1 && w.setup.Pipe > 1 {
			add(fmt.Sprintf("send ingest from %d to the end", o.Sent+1), func(w *World) { w.ingest(len(w.Stream) - int(w.Owner.Sent)) })
		}
	}
	if w.behind() && int(o.Acked.Seq) == len(w.Stream) {
		add("the stream has no more than was ingested", func(w *World) { w.Owner.Time = w.Now })
	}
	if len(w.dueNow()) > 0 {
		add("due", func(w *World) {
			a, due, _ := w.Store.Due(w.Now, w.Owner.Token, 100)
			for _, id := range due.Who {
				w.Owner.Handed[id] = true
			}
			if a != OK {
				w.reload()
			}
		})
	}
	for _, id := range w.ids() {
		unread := len(w.Store.Get(id).Inbox)
		if o.Busy[id] || unread > 0 && w.waits(id) || !o.Handed[id] && (unread == 0 || !w.setup.Hurry) {
			continue
		}
		to := may // without due: a doorbell, or the answer to a commit; nothing relies on them
		if o.Handed[id] {
			to = add
		}
		if unread == 0 {
			to("look at "+id, func(w *World) { w.look(id) })
			continue
		}
		if !slices.ContainsFunc(w.Store.Get(id).Inbox, func(e Element) bool { return e.Kind != "done" }) {
			may("look at "+id+", whose doorbell was lost", func(w *World) { w.look(id) })
		}
		to(fmt.Sprintf("turn %d inputs of %s", unread, id), func(w *World) { w.turn(id, unread) })
		if unread > 1 {
			to(fmt.Sprintf("turn the first of %d inputs of %s", unread, id), func(w *World) { w.turn(id, 1) })
		}
	}
}

func (w *World) ids() []string {
	ids := make([]string, 0, len(w.Store.Instances))
	for id := range w.Store.Instances {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// dueNow lists the instances whose look is due and which the owner has not been told of.
func (w *World) dueNow() (ids []string) {
	for _, id := range w.ids() {
		if at, listed := w.Store.Agenda[id]; listed && at <= w.Now && !w.Owner.Handed[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *World) workerSteps(add func(string, func(*World))) {
	for i, t := range w.Tasks {
		add(fmt.Sprintf("a worker claims %s of %s", t.Effect, t.Instance), func(w *World) { w.claim(i, w.fresh()) })
	}
	for i, r := range w.Runs {
		add(fmt.Sprintf("%s acks %s", r.Grip.Token, r.Grip.Effect), func(w *World) { w.ack(i) })
		if r.Trust == w.Now+1 && w.setup.Rules.LeaseTTL > 1 {
			add(fmt.Sprintf("%s renews %s", r.Grip.Token, r.Grip.Effect), func(w *World) { w.prolong(i) })
		}
	}
}

func (w *World) faults(add func(int, string, func(*World))) {
	for i, r := range w.Net {
		if r.Token != w.Owner.Token || r.Echo {
			continue
		}
		add(w.Left.Resends, r.name()+" arrives, its reply is lost, it is sent again", func(w *World) {
			w.Left.Resends--
			w.exec(w.Net[i])
		})
		add(w.Left.Echoes, r.name()+" arrives, and a copy of it will arrive later", func(w *World) {
			w.Left.Echoes--
			w.arrive(i)
			r.Echo = true
			w.Net = append(w.Net, r)
		})
	}
	if w.Saved == nil && w.Left.Rollbacks > 0 {
		add(w.Left.Rollbacks, "(what a restart will remember)", func(w *World) { w.Saved = w.Store.Clone() })
	}
	if w.Saved != nil {
		add(w.Left.Rollbacks, "ROLLBACK", func(w *World) {
			w.Store, w.Saved, w.forgot = w.Saved, nil, true
			w.Left.Rollbacks--
		})
	}
	add(w.Left.Crashes, "the owner dies, its time passes, another acquires", func(w *World) {
		w.Left.Crashes--
		w.Store.Owner.Until = w.Now
		w.acquire()
	})
	for i, r := range w.Runs {
		add(w.Left.Deaths, "the worker of "+r.Grip.Effect+" dies", func(w *World) {
			w.Left.Deaths--
			w.Runs = slices.Delete(w.Runs, i, i+1)
		})
	}
	for i, t := range w.Tasks {
		add(w.Left.Doubles, fmt.Sprintf("a worker claims %s, and the task will be delivered again", t.Effect), func(w *World) {
			w.Left.Doubles--
			w.claim(i, w.fresh())
			w.task(t.Instance, t.Execution, Create{t.Activity, t.Effect})
		})
	}
	if len(w.Tasks) > 0 {
		add(w.Left.Losses, "the tasks stream is lost", func(w *World) { w.Left.Losses--; w.Tasks = nil })
	}
	if n := len(w.Stream); n > 0 {
		add(w.Left.Repeats, "no PubAck for "+w.Stream[n-1].ID+", published again", func(w *World) {
			w.Left.Repeats--
			w.publish(w.Stream[n-1])
		})
	}
	add(w.Left.Ticks, "time passes all the same", func(w *World) { w.Left.Ticks--; w.Now++ })
}
