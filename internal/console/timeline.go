package console

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// width is the width of a lane in units of its SVG, which is stretched to the width of the page.
const width = 1000

// maxEarlier limits the lanes of work that was scheduled on earlier pages.
const maxEarlier = 20

// timeline shows the events on a page of a history over time.
type timeline struct {
	Lanes []*lane
	Ticks []string
	Span  int64 // milliseconds
	Lines []bar // lines through all lanes: cancellation requests
}

// lane is an activity with its attempts, a timer, a child or an event.
type lane struct {
	Kind, Name, URL string
	Note, Class     string // its state or outcome
	Bars            []bar
	Marks           []bar
}

// bar is a span of time, or a moment.
type bar struct {
	X, W, Class, Title string
}

// open is work that has begun and not ended.
type open struct {
	lane    *lane
	from    int64
	class   string // CSS class of its current state
	note    string // state if it does not end on the page; empty: outstanding
	attempt uint32
	queued  int64 // milliseconds in the task queue before its handler ran
}

// drawing is a timeline under construction.
type drawing struct {
	timeline

	from, until int64
	open        map[uint64]*open // keyed by the event that scheduled it
	named       map[string]*lane // events received and sent, keyed by kind and name
	calls       map[string]*lane // activities, keyed by the effect id of the first attempt
	pause       uint64           // event that began the current pause; zero: none
}

// timelineOf draws the events of a page. until is the current time if the page shows the latest events of a running
// instance, and otherwise zero.
func timelineOf(entries []client.Entry, d client.Description, until int64) timeline {
	g := &drawing{from: entries[0].Event.Meta().At, open: map[uint64]*open{}, calls: map[string]*lane{}, named: map[string]*lane{}}
	g.until = max(until, g.from+1)
	for _, e := range entries {
		g.until = max(g.until, e.Event.Meta().At)
	}
	if until > 0 {
		g.scheduledBefore(entries[0].Event.Meta().ID, d)
	}
	for _, e := range entries {
		g.event(e)
	}
	for id, o := range g.open {
		g.unfinished(id, o, d)
	}
	if until > 0 {
		g.awaited(entries, "event", d.AwaitedEvents)
		g.awaited(entries, "update", d.AwaitedUpdates)
	}
	g.Span = g.until - g.from
	for i := range 4 {
		at := time.Duration(g.until-g.from) * time.Millisecond * time.Duration(i) / 4
		if i == 0 {
			g.Ticks = append(g.Ticks, time.UnixMilli(g.from).UTC().Format("15:04:05.000"))
			continue
		}
		g.Ticks = append(g.Ticks, "+"+diagnose.Duration(at))
	}
	return g.timeline
}

func (g *drawing) x(at int64) float64 {
	return float64(min(max(at, g.from), g.until)-g.from) / float64(g.until-g.from) * width
}

func (g *drawing) span(from, until int64, class, title string) bar {
	x := g.x(from)
	return bar{X: decimal(x), W: decimal(max(g.x(until)-x, 3)), Class: class, Title: title + ", " + took(from, until)}
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

func took(from, until int64) string {
	return diagnose.Duration(time.Duration(until-from) * time.Millisecond)
}

func (g *drawing) add(l *lane) *lane {
	l.Name = text.Shorten(l.Name, 80)
	g.Lanes = append(g.Lanes, l)
	return l
}

func (g *drawing) mark(kind, name, class, note string, at int64) {
	l := g.add(&lane{Kind: kind, Name: name, Note: text.Shorten(note, 200), Class: class})
	l.Marks = append(l.Marks, bar{X: decimal(min(g.x(at), width-3)), W: "3", Class: class, Title: kind + " " + l.Name})
}

// markShared draws a moment that can repeat. Moments of the same kind and name share a lane.
func (g *drawing) markShared(kind, name, class, note string, at int64) {
	l := g.named[kind+name]
	if l == nil {
		g.mark(kind, name, class, note, at)
		g.named[kind+name] = g.Lanes[len(g.Lanes)-1]
		return
	}
	l.Marks = append(l.Marks, bar{X: decimal(min(g.x(at), width-3)), W: "3", Class: class, Title: kind + " " + l.Name})
	l.Note = text.Shorten(strings.TrimSuffix(diagnose.Number(len(l.Marks))+" times, the latest "+note, ", the latest "), 200)
}

// begin begins a bar. Bars of the same kind and name share a lane.
func (g *drawing) begin(kind, name string, id uint64, at int64, note string) {
	l := g.named[kind+name]
	if l == nil {
		l = g.add(&lane{Kind: kind, Name: name})
		g.named[kind+name] = l
	}
	g.open[id] = &open{lane: l, from: at, class: "wait", note: strings.TrimPrefix(note, ", ")}
}

// scheduledBefore begins the lanes of outstanding work that was scheduled on an earlier page.
func (g *drawing) scheduledBefore(first uint64, d client.Description) {
	for _, a := range d.Activities {
		if a.Event < first && len(g.open) < maxEarlier {
			g.open[a.Event] = &open{lane: g.add(&lane{Kind: "activity", Name: a.Name}), from: a.Scheduled.UnixMilli(), class: "run"}
		}
	}
	for _, c := range d.Children {
		if c.Event < first && len(g.open) < maxEarlier {
			g.open[c.Event] = &open{lane: g.add(&lane{Kind: "child", Name: c.Instance, URL: instancePath(c.Instance)}), from: c.Scheduled.UnixMilli(), class: "run"}
		}
	}
}

// event draws one event.
func (g *drawing) event(e client.Entry) {
	at := e.Event.Meta().At
	switch v := e.Event.(type) {
	case *history.Started:
		if v.Limit != nil && v.Limit.Waiting {
			g.open[v.ID] = &open{lane: g.add(&lane{Kind: "start", Name: v.Name}), from: at, class: "wait"}
		}
	case *history.ActivityScheduled:
		g.scheduled(v)
	case *history.Granted:
		if o := g.open[v.Scheduled]; o != nil {
			o.lane.Bars = append(o.lane.Bars, g.span(o.from, at, "wait", "wait at the limit"))
			o.from, o.class = at, "run"
		}
		if v.Scheduled == 1 {
			delete(g.open, 1)
		}
	case *history.ActivityCompleted:
		g.splitQueueTime(v.Scheduled, at, v.RanMS)
		g.end(v.Scheduled, "activity", at, "ok", on(v.Worker, v.Claims))
	case *history.ActivityFailed:
		g.splitQueueTime(v.Scheduled, at, v.RanMS)
		g.end(v.Scheduled, "activity", at, "bad", on(v.Worker, v.Claims)+", failed: "+v.Failure.Message)
	case *history.ActivityCancelRequested:
		note := ", cancelled: " + v.Reason.String()
		if e.Report != nil {
			note += ", " + diagnose.CancelOutcome(*e.Report)
		}
		g.end(v.Scheduled, "activity", at, "gone", note)
	case *history.TimerScheduled:
		if v.AttemptTimeoutOf == 0 { // otherwise it is the timeout of an attempt
			g.open[v.ID] = &open{lane: g.add(&lane{Kind: "timer", Name: "until " + g.clock(v.FireAt)}), from: at, class: "wait"}
		}
	case *history.TimerFired:
		g.endTimer(v.Timer, at, "ok", ", fired")
	case *history.TimerCancelled:
		g.endTimer(v.Timer, at, "gone", ", no longer needed")
	case *history.ChildScheduled:
		l := g.add(&lane{Kind: "child", Name: v.Instance, URL: instancePath(v.Instance)})
		if v.Detached || v.Abandon {
			l.Note, l.Class = "not waited for", "mute"
			l.Marks = append(l.Marks, bar{X: decimal(min(g.x(at), width-3)), W: "3", Class: "run", Title: "started"})
			return
		}
		g.open[v.ID] = &open{lane: l, from: at, class: "run"}
	case *history.ChildCompleted:
		g.end(v.Scheduled, "child", at, "ok", "")
	case *history.ChildFailed:
		g.end(v.Scheduled, "child", at, "bad", ", failed: "+v.Failure.Message)
	case *history.ChildCancelRequested:
		g.end(v.Scheduled, "child", at, "gone", ", cancelled: "+v.Reason.String())
	default:
		g.moment(e.Event, at)
	}
}

// moment draws an event without a duration.
func (g *drawing) moment(e history.Event, at int64) {
	switch v := e.(type) {
	case *history.EventReceived:
		g.markShared("event", v.Name, "run", diagnose.ByWhom(v.By, ""), at)
	case *history.UpdateReceived:
		g.begin("update", v.Name, v.ID, at, diagnose.ByWhom(v.By, "")+", not answered")
	case *history.UpdateAnswered:
		class, note := "ok", ", answered"
		if v.Failure != nil {
			class, note = "bad", ", rejected: "+v.Failure.Message
		}
		g.end(v.Update, "update", at, class, note)
	case *history.Paused:
		g.begin("pause", "paused", v.ID, at, diagnose.ByWhom(v.By, v.Text))
		g.pause = v.ID
	case *history.Resumed:
		if note := strings.TrimSpace("resumed " + diagnose.ByWhom(v.By, v.Text)); g.pause > 0 {
			g.end(g.pause, "pause", at, "wait", ", "+note)
		} else {
			g.mark("pause", "paused", "wait", note, at)
		}
	case *history.Rewound:
		g.mark("rewind", "rewound", "mute", diagnose.ByWhom(v.By, v.Text), at)
	case *history.EventSent:
		g.markShared("sent", v.Name, "mute", "to "+v.Instance, at)
	case *history.Broadcast:
		g.markShared("sent", v.Verb, "mute", v.String(), at)
	case *history.CancelRequested:
		g.Lines = append(g.Lines, bar{X: decimal(min(g.x(at), width-2)), W: "2", Class: "gone"})
		g.mark("cancel", "cancellation requested", "gone", diagnose.ByWhom(v.By, v.Text), at)
	case *history.PurgeRequested:
		g.mark("purge", "purge requested", "gone", diagnose.ByWhom(v.By, v.Text), at)
	case *history.Completed:
		g.mark("end", "completed", "ok", "", at)
	case *history.Failed:
		g.mark("end", "failed", "bad", v.Failure.Message, at)
	case *history.Cancelled:
		g.mark("end", "cancelled", "gone", "", at)
	case *history.ContinuedAsNew:
		g.mark("end", "continued as new", "mute", "", at)
	}
}

func (g *drawing) scheduled(v *history.ActivityScheduled) {
	first := v.First
	if first == "" {
		first = v.Effect
	}
	l := g.calls[first]
	if l == nil {
		l = g.add(&lane{Kind: "activity", Name: v.Name})
		g.calls[first] = l
	}
	o := &open{lane: l, from: v.At, class: "run", attempt: v.Attempt}
	if v.Limit != nil && v.Limit.Waiting {
		o.class = "wait"
	}
	g.open[v.ID] = o
}

// splitQueueTime splits the time of an activity: before its handler ran, it was in the task queue.
func (g *drawing) splitQueueTime(id uint64, at int64, ms uint32) {
	o := g.open[id]
	if o == nil || ms == 0 || at-int64(ms) <= o.from {
		return
	}
	began := at - int64(ms)
	o.lane.Bars = append(o.lane.Bars, g.span(o.from, began, "queue", "wait for a worker"))
	o.queued, o.from = began-o.from, began
}

// end ends a bar. The bar of work that was scheduled on an earlier page begins at the left edge.
func (g *drawing) end(id uint64, kind string, at int64, class, note string) {
	o := g.open[id]
	if o == nil {
		o = &open{lane: g.add(&lane{Kind: kind, Name: "scheduled by event " + strconv.FormatUint(id, 10)}), from: g.from}
	}
	delete(g.open, id)
	what := class
	if o.class == "wait" && class == "gone" {
		what = "wait"
	}
	title := text.Shorten(o.lane.Name+note, 200)
	o.lane.Bars = append(o.lane.Bars, g.span(o.from, at, what, title))
	if o.queued > 0 {
		note += ", after " + took(0, o.queued) + " in the queue"
	}
	o.lane.Note, o.lane.Class = text.Shorten(took(o.from, at)+note, 200), class
	if o.attempt > 1 {
		o.lane.Note = "attempt " + strconv.Itoa(int(o.attempt)) + ", " + o.lane.Note
	}
}

// endTimer ends the bar of a timer, if the timer is drawn.
func (g *drawing) endTimer(id uint64, at int64, class, note string) {
	if g.open[id] != nil {
		g.end(id, "timer", at, class, note)
	}
}

// unfinished draws work that has not ended on this page.
func (g *drawing) unfinished(id uint64, o *open, d client.Description) {
	o.lane.Class = o.class
	note := cmp.Or(o.note, "outstanding")
	for _, a := range d.Activities {
		if a.Event != id {
			continue
		}
		note = "waits for a worker"
		if a.Worker != "" {
			note = "runs" + on(a.Worker, a.Claims)
		} else {
			o.class = "queue"
		}
	}
	if w, waits := diagnose.WaitOf(d.LimitWaits, id); waits {
		o.class, note = "wait", "waits at the limit: "+diagnose.LimitWait(w, time.UnixMilli(g.until))
	}
	o.lane.Note = took(o.from, g.until) + ", " + note
	o.lane.Bars = append(o.lane.Bars, g.span(o.from, g.until, o.class+" open", o.lane.Name))
}

// awaited draws the events or updates that the code waits for. They begin at the latest turn, because a wait itself is not
// recorded.
func (g *drawing) awaited(entries []client.Entry, kind string, names []string) {
	since := entries[len(entries)-1].Event.Meta().At
	for _, name := range names[:min(len(names), maxChildren)] {
		note := took(since, g.until) + ", waited for"
		l := g.named[kind+name]
		if l == nil {
			l = g.add(&lane{Kind: kind, Name: name})
		} else {
			note = l.Note + "; " + note
		}
		l.Note, l.Class = note, "wait"
		l.Bars = append(l.Bars, g.span(since, g.until, "wait open", l.Name))
	}
}

func on(worker string, claims uint32) (s string) {
	if worker != "" {
		s = " on " + worker
	}
	if claims > 1 {
		s += ", claim " + strconv.Itoa(int(claims))
	}
	return s
}

// clock formats a time of day, with the date if it is not the date on which the timeline begins.
func (g *drawing) clock(ms int64) string {
	at := time.UnixMilli(ms).UTC()
	if at.Format(time.DateOnly) == time.UnixMilli(g.from).UTC().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
