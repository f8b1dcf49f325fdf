package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
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
	past, events, err := foldHistory(in.History())
	if err != nil {
		return err.Error()
	}
	for _, promise := range []string{
		missing(listed, in), recordMatches(in), messages(w, in), inputs(w, id, in, events), leases(in, past), results(events), timers(w, id, in, events), noInputSleeps(w, id, in), noRepeatedCall(events),
	} {
		if promise != "" {
			return promise
		}
	}
	return wakeup(w, id, in, past)
}

// folded is a decoded history: most states share theirs with another state.
type folded struct {
	state  *fold.State
	events []history.Event
	err    error
}

var folds = map[string]folded{}

// foldHistory decodes a history. Its results must not be changed.
func foldHistory(encoded []string) (*fold.State, []history.Event, error) {
	key := strings.Join(encoded, "")
	f, known := folds[key]
	if !known {
		f.state = &fold.State{}
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

// wakeup checks that an instance with outstanding work has a wakeup in time.
func wakeup(w *World, id string, in *memstore.Instance, past *fold.State) string {
	at, listed := w.Store.Wakeups[id]
	late := func(limit int64) bool { return !listed || at > max(limit, w.Now+soon) }
	early := in.Head == "" && len(in.Inbox) > 0 && in.Inbox[0].Kind != "start"
	t, timed := past.NextTimer()
	paused := in.Status == string(record.Paused)
	var what string
	switch {
	case early && !listed:
		what = "inputs that arrived before their start"
	case len(in.Inbox) > 0 && !early && (!paused || requested(in)) && late(w.Now+soon):
		what = "unread inputs"
	case in.HasPending() && late(w.Now+look):
		what = "pending messages"
	case past.AdmittedLen() > 0 && late(w.Now+look):
		what = "outstanding activities"
	case past.WaitingLen() > 0 && !listed:
		what = "a waiting ticket"
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

// missing checks that an id without an instance has no keys of one, and that a start is its first unread input.
func missing(listed bool, in *memstore.Instance) string {
	switch {
	case in.Head != "":
		return ""
	case len(in.Histories) > 0:
		return "a history without an instance"
	case len(in.Leases) > 0:
		return "a lease without an instance"
	case len(in.Reports) > 0:
		return "a report without an instance"
	case len(in.Inbox) == 0 && listed:
		return "a wakeup without an instance"
	case slices.IndexFunc(in.Inbox, func(e memstore.Element) bool { return e.Kind == "start" }) > 0:
		return "the start of an instance is not its first unread input"
	}
	return ""
}

// recordMatches checks that an execution has one start, and that the record matches its history.
func recordMatches(in *memstore.Instance) string {
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
		return fmt.Sprintf("the start of execution %d is not its first unread input", in.Execution)
	case !ended && in.End != "":
		return "a running instance has the end of another incarnation"
	case len(in.Histories) > 2:
		return fmt.Sprintf("%d histories are kept", len(in.Histories))
	}
	return ""
}

// sent lists the messages of a history, by the event that sends each.
func sent(encoded []string) map[uint64]string {
	past, _, _ := foldHistory(encoded)
	out := map[uint64]string{}
	for _, m := range past.PendingMessages() {
		if e, ok := m.Event.(*history.EventSent); ok {
			out[m.ID] = e.Effect
		}
	}
	return out
}

// messages checks that pending messages can be sent, and that those recorded as published were.
func messages(w *World, in *memstore.Instance) string {
	if in.HasPending() && uint64(len(in.Histories[in.Out.Execution])) < in.Out.Event {
		return fmt.Sprintf("messages up to event %d of execution %d are pending, and their history is missing", in.Out.Event, in.Out.Execution)
	}
	for n, h := range in.Histories {
		for event, effect := range sent(h) {
			at := memstore.Place{Execution: n, Event: event}
			if in.Out.Less(at) && n == in.Execution {
				return fmt.Sprintf("the message of event %d is not recorded as pending", event)
			}
			if !in.Sent.Less(at) && !slices.Contains(w.Received, effect) {
				return fmt.Sprintf("the message of event %d is recorded as published, but was not published", event)
			}
		}
	}
	return ""
}

// inputID returns the id of an input.
func inputID(ev history.Event) string {
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
	ev, _ := eventcodec.Element{ID: e.ID, At: e.Time, Body: e.Body}.Event()
	return ev
}

// inputs checks that each input up to the applied position is once in history or inbox, in order, and that no later one is.
func inputs(w *World, id string, in *memstore.Instance, events []history.Event) string {
	var taken []string
	ended, overflown := record.Status(in.Status).Ended(), false
	for _, ev := range events {
		if name := inputID(ev); name != "" {
			taken = append(taken, strings.Split(name, "+")...)
		}
	}
	for _, e := range in.Inbox {
		overflown = overflown || e.Kind == "full"
		if name := inputID(inputOf(e)); name != "" {
			taken = append(taken, strings.Split(name, "+")...)
		}
	}
	last := -1
	for _, t := range taken {
		if w.Removed[t] {
			return "input " + t + " of a purged instance has reappeared"
		}
		if strings.HasPrefix(t, "start") || t == "ystart" || strings.HasPrefix(t, "next") {
			continue // it precedes events that arrived early, or after a purge
		}
		i := slices.IndexFunc(w.setup.Plan, func(p planned) bool { return p.ID == t })
		if i <= last {
			return "input " + t + " is out of order or duplicated"
		}
		last = max(last, i)
	}
	if ended {
		return ""
	}
	applied := int(w.Store.Owner.Applied.Seq)
	for i, m := range w.Stream {
		if m.Instance != id || w.Removed[m.ID] {
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

// incarnated reports an input of an earlier incarnation.
func incarnated(w *World, in *memstore.Instance, i int) bool {
	return in.Data != nil && w.Stream[i].Pos.Seq < in.Data.Origin.Seq && in.Data.Parent != nil
}

// timers checks that no input that was accepted before the time of a fired timer is unread.
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
		if at := m.Pos.Time / 1_000_000; m.Instance == id && at < fired && !slices.ContainsFunc(events, func(ev history.Event) bool { return inputID(ev) == m.ID }) {
			return fmt.Sprintf("a timer of %d has fired before input %s, which was accepted at %d", fired-begin, m.ID, at-begin)
		}
	}
	return ""
}

// results checks that an activity completes with the result of its own run.
func results(events []history.Event) string {
	called := map[uint64]string{}
	for _, ev := range events {
		switch e := ev.(type) {
		case *history.ActivityScheduled:
			called[e.ID] = string(e.Payload.Data)
		case *history.ActivityCompleted:
			if got := string(e.Result.Data); got != called[e.Scheduled] {
				return fmt.Sprintf("activity %d is %s, but has completed with the result of %s", e.Scheduled, called[e.Scheduled], got)
			}
		}
	}
	return ""
}

// leases checks that each outstanding activity has a lease or an unread completion, and that there is no other lease.
func leases(in *memstore.Instance, past *fold.State) string {
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
		if n != want && (n != 0 || !stopped && !beginsRewound(in)) { // they are scheduled again
			return fmt.Sprintf("activity %d has %d leases and unread completions", a, n)
		}
	}
	return ""
}

// noInputSleeps checks that, unless a message was lost, unread inputs do not wait for a wakeup of the store.
func noInputSleeps(w *World, id string, in *memstore.Instance) string {
	early := in.Head == "" && len(in.Inbox) > 0 && in.Inbox[0].Kind != "start"
	if !w.setup.Prompt || w.Lossy || early || len(in.Inbox) == 0 || len(w.Net) > 0 || len(w.Doorbells) > 0 || len(w.Owner.Timers) > 0 {
		return ""
	}
	return "unread inputs, but no outstanding request reads them (" + w.Owner.Core.Describe(id) + ")"
}

// recordPurged checks the state after a purge, and records the inputs that it has removed.
func recordPurged(w *World, before *memstore.Instance, p *record.Purge) {
	in := w.Store.Get(p.Instance)
	if before.Head != "" && !record.Status(before.Status).Ended() {
		w.Broken = "a running instance was purged"
	}
	for _, h := range before.Histories {
		for event, effect := range sent(h) {
			if !slices.Contains(w.Received, effect) {
				w.Broken = fmt.Sprintf("an instance was purged before the message of event %d was published", event)
			}
		}
	}
	for _, e := range before.Inbox[min(len(p.Pop), len(before.Inbox)):] {
		if !slices.ContainsFunc(in.Inbox, func(l memstore.Element) bool { return l.ID == e.ID }) {
			w.Broken = e.ID + " arrived after the purge, and is lost"
		}
	}
	for _, m := range w.Stream[:w.Store.Owner.Applied.Seq] {
		if m.Instance == p.Instance && !slices.ContainsFunc(in.Inbox, func(e memstore.Element) bool { return inputID(inputOf(e)) == m.ID }) {
			w.Removed[m.ID] = true
		}
	}
}

// recordRemoved records inputs that were removed unread.
func recordRemoved(w *World, es []memstore.Element) {
	for _, e := range es {
		if name := inputID(inputOf(e)); name != "" {
			w.Removed[name] = true
		}
		if e.Kind != "full" {
			continue
		}
		for _, m := range w.Stream[:w.Store.Owner.Applied.Seq] {
			w.Removed[m.ID] = true
		}
	}
}

// recordPopped records inputs that were removed and are in no history: early inputs, a refused purge, another start.
func recordPopped(w *World, id string, es []memstore.Element, unread bool) {
	if unread {
		recordRemoved(w, es)
		return
	}
	in := w.Store.Get(id)
	var events []history.Event
	for _, h := range in.Histories {
		_, more, _ := foldHistory(h)
		events = append(slices.Clip(events), more...)
	}
	for _, e := range in.Inbox {
		if ev := inputOf(e); ev != nil {
			events = append(events, ev)
		}
	}
	for _, e := range es {
		ev := inputOf(e)
		name := inputID(ev)
		has := slices.ContainsFunc(events, func(h history.Event) bool { return slices.Contains(strings.Split(inputID(h), "+"), name) })
		if ev == nil || has || strings.Contains(name, "+") {
			continue
		}
		if k := ev.Kind(); record.Status(in.Status).Ended() || k == history.KindStarted && !strings.HasPrefix(e.ID, "!c") && !strings.HasPrefix(e.ID, "!h") || k == history.KindPurgeRequested || k == history.KindOperatorRequested {
			w.Removed[name] = true
		}
	}
}

// Finished returns the promise that a world at rest breaks, or nothing.
func (w *World) Finished() string {
	if w.Plan < len(w.setup.Plan) || int(w.Store.Owner.Applied.Seq) < len(w.Stream) {
		return "inputs were never ingested"
	}
	if b := occupied(w); b != "" {
		return b
	}
	for _, id := range w.IDs() {
		in := w.Store.Get(id)
		past, _, _ := foldHistory(in.History())
		ended := record.Status(in.Status).Ended()
		if len(in.Inbox) > 0 && in.Status != "" && in.Status != string(record.Paused) {
			return id + ": inputs are never consumed"
		}
		if ended && w.setup.Retire {
			return id + ": it has ended and is never purged"
		}
		if in.Status == string(record.Paused) {
			continue
		}
		if in.Status != "" && !ended && w.setup.Ends {
			return id + ": it never ends"
		}
		for _, h := range in.Histories {
			for event, effect := range sent(h) {
				if !slices.Contains(w.Received, effect) {
					return fmt.Sprintf("%s: the message of event %d is never published", id, event)
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

// Fair returns the next step of a world without further faults, or reports that it has come to rest. Time passes last.
func (w *World) Fair() (Step, bool) {
	s := fair(w)
	i := slices.IndexFunc(s, func(s Step) bool { return !s.Optional })
	if i < 0 {
		return Step{}, false
	}
	return Step{Name: s[i].Name, do: func(w *World) { w.Faultless = true; s[i].do(w) }}, true
}
