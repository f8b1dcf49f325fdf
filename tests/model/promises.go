package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Check returns the promise that the state breaks, or nothing.
func (w *World) Check() string {
	if w.Broken != "" {
		return w.Broken
	}
	if b := limited(w); b != "" {
		return b
	}
	for _, id := range w.IDs() {
		if b := checkInstance(w, id, w.Store.Get(id)); b != "" {
			return id + ": " + b
		}
	}
	return ""
}

func checkInstance(w *World, id string, in *memstore.Instance) string {
	_, listed := w.Store.Wakeups[id]
	past, events, err := fold(in.History())
	if err != nil {
		return err.Error()
	}
	for _, promise := range []string{
		missing(listed, in), theRecord(in), messages(w, in), inputs(w, id, in, events), leases(in, past), results(events), timers(w, id, in, events), asleep(w, id, in), again(events),
	} {
		if promise != "" {
			return promise
		}
	}
	return wakeup(w, id, in, past)
}

// folded is a history as it was read before: most states have that of another.
type folded struct {
	state  *history.State
	events []history.Event
	err    error
}

var folds = map[string]folded{}

// fold reads a history. Its results are not to be changed.
func fold(encoded []string) (*history.State, []history.Event, error) {
	key := strings.Join(encoded, "")
	f, known := folds[key]
	if !known {
		f.state = &history.State{}
		f.events, f.err = memstore.Events(encoded)
		for _, ev := range f.events {
			if f.err == nil {
				f.err = f.state.Apply(ev)
			}
		}
		folds[key] = f
	}
	return f.state, f.events, f.err
}

// wakeup: what could be forgotten has a wakeup in time.
func wakeup(w *World, id string, in *memstore.Instance, past *history.State) string {
	at, listed := w.Store.Wakeups[id]
	late := func(limit int64) bool { return !listed || at > max(limit, w.Now+soon) }
	early := in.Head == "" && len(in.Inbox) > 0 && in.Inbox[0].Kind != "start"
	t, timed := past.NextTimer()
	paused := in.Status == string(record.Paused)
	var what string
	switch {
	case early && !listed:
		what = "inputs that came before their start"
	case len(in.Inbox) > 0 && !early && (!paused || requested(in)) && late(w.Now+soon):
		what = "unread inputs"
	case in.HasPending() && late(w.Now+look):
		what = "pending messages"
	case past.AdmittedLen() > 0 && late(w.Now+look):
		what = "outstanding activities"
	case past.WaitingLen() > 0 && !listed:
		what = "a ticket that waits"
	case timed && past.End == nil && !paused && late(t.FireAt):
		what = fmt.Sprintf("a timer of %d", t.FireAt-begin)
	default:
		return ""
	}
	if !listed {
		return what + ", and the wakeup is missing"
	}
	return fmt.Sprintf("%s, and the wakeup is at %d, now %d", what, at-begin, w.Now-begin)
}

// `missing`: where there is no instance, nothing of one is left, and the start that has come is first.
func missing(listed bool, in *memstore.Instance) string {
	switch {
	case in.Head != "":
		return ""
	case len(in.Histories) > 0:
		return "there is no instance, and a history is left"
	case len(in.Leases) > 0:
		return "there is no instance, and a lease is left"
	case len(in.Reports) > 0:
		return "there is no instance, and a report is left"
	case len(in.Inbox) == 0 && listed:
		return "there is no instance, and it has a wakeup"
	case slices.IndexFunc(in.Inbox, func(e memstore.Element) bool { return e.Kind == "start" }) > 0:
		return "there is no instance, and its start is not the first that is unread"
	}
	return ""
}

// theRecord: an execution begins with one start, and its record is of its history and of nothing else.
func theRecord(in *memstore.Instance) string {
	if in.Head == "" {
		return ""
	}
	starts, ended := 0, record.Status(in.Status).Ended()
	for _, e := range in.Inbox {
		if strings.HasPrefix(e.ID, fmt.Sprintf("!c%d.0", in.Execution)) || strings.HasPrefix(e.ID, fmt.Sprintf("!h%d.0", in.Execution)) {
			starts++
		}
	}
	if len(in.History()) > 0 {
		starts++
	}
	switch {
	case in.Events != len(in.History()):
		return fmt.Sprintf("the record has %d events, and the history %d", in.Events, len(in.History()))
	case starts > 1 || starts == 0 && in.Execution > 1:
		return fmt.Sprintf("execution %d has %d starts", in.Execution, starts)
	case in.Events == 0 && (len(in.Inbox) == 0 || in.Inbox[0].Kind != "start"):
		return fmt.Sprintf("execution %d has begun, and its start is not the first that is unread", in.Execution)
	case !ended && in.End != "":
		return "it runs, and has the end of another incarnation"
	case len(in.Histories) > 2:
		return fmt.Sprintf("%d histories are kept", len(in.Histories))
	}
	return ""
}

// sent lists the messages of a history, by the event that sends each.
func sent(encoded []string) map[uint64]string {
	past, _, _ := fold(encoded)
	out := map[uint64]string{}
	for _, m := range past.PendingMessages() {
		if e, ok := m.Event.(*history.EventSent); ok {
			out[m.ID] = e.Effect
		}
	}
	return out
}

// messages: what is pending can be sent, and what is marked as sent has been.
func messages(w *World, in *memstore.Instance) string {
	if in.HasPending() && uint64(len(in.Histories[in.Out.Execution])) < in.Out.Event {
		return fmt.Sprintf("messages up to event %d of execution %d are pending, and its history is gone", in.Out.Event, in.Out.Execution)
	}
	for n, h := range in.Histories {
		for event, effect := range sent(h) {
			at := memstore.Place{Execution: n, Event: event}
			if in.Out.Less(at) && n == in.Execution {
				return fmt.Sprintf("the message of event %d is not marked as pending", event)
			}
			if !in.Sent.Less(at) && !slices.Contains(w.Told, effect) {
				return fmt.Sprintf("the message of event %d is marked as sent, and was not", event)
			}
		}
	}
	return ""
}

// named is the id of an input.
func named(ev history.Event) string {
	switch e := ev.(type) {
	case *history.Started:
		return strings.Trim(string(e.Payload.Data), `"`)
	case *history.EventReceived:
		return e.MsgID
	case *history.CancelRequested:
		if e.Text != "" { // of an orphan
			return ""
		}
		return e.By
	case *history.PurgeRequested:
		return e.By
	case *history.OperatorRequested:
		return e.By
	default:
		return ""
	}
}

func inputOf(e memstore.Element) history.Event {
	ev, _ := history.Element{ID: e.ID, At: e.Time, Body: e.Body}.Event()
	return ev
}

// inputs: what is at or before the applied position is once in history or inbox, in order; what is behind it nowhere.
func inputs(w *World, id string, in *memstore.Instance, events []history.Event) string {
	var taken []string
	ended, overflown := record.Status(in.Status).Ended(), false
	for _, ev := range events {
		if name := named(ev); name != "" {
			taken = append(taken, strings.Split(name, "+")...)
		}
	}
	for _, e := range in.Inbox {
		overflown = overflown || e.Kind == "full"
		if name := named(inputOf(e)); name != "" {
			taken = append(taken, strings.Split(name, "+")...)
		}
	}
	last := -1
	for _, t := range taken {
		if w.Spent[t] {
			return "input " + t + " of a purged instance has come back"
		}
		if strings.HasPrefix(t, "start") || t == "ystart" || strings.HasPrefix(t, "next") {
			continue // it goes before events that came early, or behind a purge
		}
		i := slices.IndexFunc(w.setup.Plan, func(p planned) bool { return p.ID == t })
		if i <= last {
			return "input " + t + " is out of order or twice"
		}
		last = max(last, i)
	}
	if ended {
		return ""
	}
	applied := int(w.Store.Owner.Applied.Seq)
	for i, m := range w.Stream {
		if m.Instance != id || w.Spent[m.ID] {
			continue
		}
		have := slices.Contains(taken, m.ID)
		if i < applied && !have && !incarnated(w, in, i) && (!overflown || strings.HasPrefix(m.ID, "start")) {
			return "accepted input " + m.ID + " is lost"
		}
		first := slices.IndexFunc(w.Stream, func(n planned) bool { return n.ID == m.ID })
		if have && first >= applied {
			return "input " + m.ID + " took effect before its position was passed"
		}
	}
	return ""
}

// incarnated reports an input of an incarnation before this one.
func incarnated(w *World, in *memstore.Instance, i int) bool {
	return in.Data != nil && w.Stream[i].Pos.Seq < in.Data.Origin.Seq && in.Data.Parent != nil
}

// timers: when a timer has fired, nothing that was accepted before it was due is still to be read.
func timers(w *World, id string, in *memstore.Instance, events []history.Event) string {
	fired := int64(0)
	for _, ev := range events {
		if ev.Kind() == history.KindTimerFired {
			fired = max(fired, ev.Meta().At)
		}
	}
	if fired == 0 {
		return ""
	}
	for _, e := range in.Inbox {
		if e.Time < fired {
			return fmt.Sprintf("a timer of %d has fired before input %s of %d, which is unread", fired-begin, e.ID, e.Time-begin)
		}
	}
	for _, m := range w.Stream[w.Store.Owner.Applied.Seq:] {
		if at := m.Pos.Time / 1_000_000; m.Instance == id && at < fired && !slices.ContainsFunc(events, func(ev history.Event) bool { return named(ev) == m.ID }) {
			return fmt.Sprintf("a timer of %d has fired before input %s, which was accepted at %d", fired-begin, m.ID, at-begin)
		}
	}
	return ""
}

// results: an activity completes with what its own work has returned.
func results(events []history.Event) string {
	called := map[uint64]string{}
	for _, ev := range events {
		switch e := ev.(type) {
		case *history.ActivityScheduled:
			called[e.ID] = string(e.Payload.Data)
		case *history.ActivityCompleted:
			if got := string(e.Result.Data); got != called[e.Scheduled] {
				return fmt.Sprintf("activity %d is %s, and has completed with %s, of another timeline", e.Scheduled, called[e.Scheduled], got)
			}
		}
	}
	return ""
}

// leases: an outstanding activity has a lease or an unread completion, and nothing else has either lease.
func leases(in *memstore.Instance, past *history.State) string {
	execution, stopped := max(in.Execution, 1), past.PausedBy() != nil && past.PausedBy().Stop
	for a, l := range in.Leases {
		if open := past.Activity(a.Event); a.Execution != execution || open == nil || open.Effect != l.Effect {
			return fmt.Sprintf("the lease of event %d of execution %d, without an outstanding activity", a.Event, a.Execution)
		}
	}
	for _, a := range past.Outstanding() {
		n, effect := 0, past.Activity(a).Effect
		if _, ok := in.Leases[memstore.Place{Execution: execution, Event: a}]; ok {
			n++
		}
		for _, e := range in.Inbox {
			if e.Kind == "done" && e.Ref == a && e.Tag == effect {
				n++
			}
		}
		want := 1
		if past.Waiting(a) {
			want = 0
		}
		if n != want && (n != 0 || !stopped && !beginsRewound(in)) { // they are scheduled anew
			return fmt.Sprintf("activity %d has %d leases and unread completions", a, n)
		}
	}
	return ""
}

// asleep: as long as nothing was lost, unread inputs do not wait for a wakeup of the store.
func asleep(w *World, id string, in *memstore.Instance) string {
	early := in.Head == "" && len(in.Inbox) > 0 && in.Inbox[0].Kind != "start"
	if !w.setup.Prompt || w.Unheard || early || len(in.Inbox) == 0 || len(w.Net) > 0 || len(w.Bells) > 0 || len(w.Owner.Timers) > 0 {
		return ""
	}
	return "unread inputs, and nothing is outstanding that would have them read (" + w.Owner.Core.Describe(id) + ")"
}

// purged checks what a purge has left, and remembers which inputs are gone with it.
func purged(w *World, before *memstore.Instance, p *record.Purge) {
	in := w.Store.Get(p.Instance)
	if before.Head != "" && !record.Status(before.Status).Ended() {
		w.Broken = "an instance that runs was purged"
	}
	for _, h := range before.Histories {
		for event, effect := range sent(h) {
			if !slices.Contains(w.Told, effect) {
				w.Broken = fmt.Sprintf("the message of event %d was never sent, and its instance is purged", event)
			}
		}
	}
	for _, e := range before.Inbox[min(len(p.Pop), len(before.Inbox)):] {
		if !slices.ContainsFunc(in.Inbox, func(l memstore.Element) bool { return l.ID == e.ID }) {
			w.Broken = e.ID + " came behind the purge, and is lost"
		}
	}
	for _, m := range w.Stream[:w.Store.Owner.Applied.Seq] {
		if m.Instance == p.Instance && !slices.ContainsFunc(in.Inbox, func(e memstore.Element) bool { return named(inputOf(e)) == m.ID }) {
			w.Spent[m.ID] = true
		}
	}
}

// spend remembers inputs that were taken out unread.
func spend(w *World, es []memstore.Element) {
	for _, e := range es {
		if name := named(inputOf(e)); name != "" {
			w.Spent[name] = true
		}
		if e.Kind != "full" {
			continue
		}
		for _, m := range w.Stream[:w.Store.Owner.Applied.Seq] {
			w.Spent[m.ID] = true
		}
	}
}

// popped remembers inputs that were taken out and are in no history: what was there without an instance, a purge that is refused,
// another start.
func popped(w *World, id string, es []memstore.Element, unread bool) {
	if unread {
		spend(w, es)
		return
	}
	in := w.Store.Get(id)
	var events []history.Event
	for _, h := range in.Histories {
		_, more, _ := fold(h)
		events = append(slices.Clip(events), more...)
	}
	for _, e := range in.Inbox {
		if ev := inputOf(e); ev != nil {
			events = append(events, ev)
		}
	}
	for _, e := range es {
		ev := inputOf(e)
		name := named(ev)
		has := slices.ContainsFunc(events, func(h history.Event) bool { return slices.Contains(strings.Split(named(h), "+"), name) })
		if ev == nil || has || strings.Contains(name, "+") {
			continue
		}
		if k := ev.Kind(); record.Status(in.Status).Ended() || k == history.KindStarted && !strings.HasPrefix(e.ID, "!c") && !strings.HasPrefix(e.ID, "!h") || k == history.KindPurgeRequested || k == history.KindOperatorRequested {
			w.Spent[name] = true
		}
	}
}

// Finished returns what is missing from a world that has come to rest.
func (w *World) Finished() string {
	if w.Plan < len(w.setup.Plan) || int(w.Store.Owner.Applied.Seq) < len(w.Stream) {
		return "inputs were never ingested"
	}
	if b := occupied(w); b != "" {
		return b
	}
	for _, id := range w.IDs() {
		in := w.Store.Get(id)
		past, _, _ := fold(in.History())
		ended := record.Status(in.Status).Ended()
		if len(in.Inbox) > 0 && in.Status != "" && in.Status != string(record.Paused) {
			return id + ": inputs are never turned"
		}
		if ended && w.setup.Retire {
			return id + ": it has ended and is never removed"
		}
		if in.Status == string(record.Paused) {
			return ""
		}
		if in.Status != "" && !ended && w.setup.Ends {
			return id + ": it never ends"
		}
		for _, h := range in.Histories {
			for event, effect := range sent(h) {
				if !slices.Contains(w.Told, effect) {
					return fmt.Sprintf("%s: the message of event %d is never sent", id, event)
				}
			}
		}
		if in.HasPending() {
			return id + ": messages are pending forever"
		}
		if past.OutstandingLen()+past.TimerLen() > 0 {
			return fmt.Sprintf("%s: activities %v and %d timers never end", id, past.Outstanding(), past.TimerLen())
		}
	}
	return ""
}

// Fair picks the next step of a world in which nothing goes wrong any more, or reports that it has come to rest. Time passes last.
func (w *World) Fair() (Step, bool) {
	s := fair(w)
	i := slices.IndexFunc(s, func(s Step) bool { return !s.Optional })
	if i < 0 {
		return Step{}, false
	}
	return Step{Name: s[i].Name, do: func(w *World) { w.Calm = true; s[i].do(w) }}, true
}
