package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	eventRows   = 100 // events on a page of the history, and in its timeline
	maxChildren = 10  // children that are described
	maxField    = 4 << 10
)

// instanceData is the page of an instance. It reads one page of the history, however long the history is.
type instanceData struct {
	api.Instance

	Waits     string // what the instance waits for; empty: it has ended or is running
	Bad       bool   // the instance cannot proceed without help
	Help      []link // links that may help
	LimitText []limitLine
	Input     json.RawMessage
	By        string // sender of the start
	Timeline  timeline
	Events    []eventRow
	Pages     pager
	Live      bool     // has not ended
	Verbs     []link   // operator requests that are possible
	Rewinds   bool     // the events belong to the current execution, which can be rewound to them
	Job       string   // activity of a job; empty: not a job
	JobNotes  []string // settings of the job
	Batch     *api.Batch
}

// limitLine describes a wait at a limit.
type limitLine struct{ Text, URL string }

// eventRow is an event of the history.
type eventRow struct {
	ID                  uint64
	Clock, At           string
	Kind, Text, Details string
	Of                  uint64 // event that this one completes; zero: none
	OfURL               string
}

// pager links to the pages of a history.
type pager struct {
	From, To, Of                uint64
	First, Previous, Next, Last string // addresses; empty: no such page
	Executions                  []link
}

func showInstance(q *request) (view, error) {
	id := q.PathValue("id")
	d, err := q.client.Describe(q.Context(), id)
	if err != nil {
		return view{}, err
	}
	data := instanceData{Instance: api.InstanceOf(d, q.children(d)), Live: d.Ended.IsZero()}
	data.Verbs = operations(d.Status, kindOf(d.Orchestration))
	q.diagnose(d, &data)
	if err := q.history(d, &data); err != nil {
		return view{}, err
	}
	data.showJobInput()
	section := "instances"
	if data.Orchestration == builtin.Batches.Name() {
		section = "batches"
		data.Batch = new(api.Batch)
		if err := q.call(http.MethodGet, "/batches/"+url.PathEscape(id), nil, nil, data.Batch); err != nil {
			return view{}, err
		}
	}
	if data.Orchestration == builtin.Schedules.Name() {
		data.Waits, data.Bad, data.Help = "Is a schedule", false, []link{{Name: "Open the schedule", URL: schedulePath(id)}}
	}
	return view{template: "instance", title: id, section: section, data: data, live: "/api/v1" + instancePath(id) + "/watch?"}, nil
}

// branch is an instance with its outstanding descendants, as returned by the API.
type branch struct {
	Instance, Orchestration, Status, Stalled string
	Children                                 []branch
	More                                     bool
}

func showTree(q *request) (view, error) {
	id := q.PathValue("id")
	var root branch
	err := q.call(http.MethodGet, instancePath(id)+"/tree", nil, nil, &root)
	return view{template: "tree", title: "Tree of " + id, section: "instances", data: root, live: "/api/v1/watch?"}, err
}

// children describes the first children in parallel. A child that cannot be described has an empty summary.
func (q *request) children(d client.Description) func(string) client.Summary {
	known := make(map[string]client.Summary)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range d.Children[:min(len(d.Children), maxChildren)] {
		wg.Go(func() {
			child, err := q.client.Describe(q.Context(), c.Instance)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				known[c.Instance] = child.Summary
			}
		})
	}
	wg.Wait()
	return func(id string) client.Summary { return known[id] }
}

// diagnose determines what the instance waits for, and links that may help.
func (q *request) diagnose(d client.Description, data *instanceData) {
	if !d.Ended.IsZero() {
		return
	}
	for _, w := range d.LimitWaits[:min(len(d.LimitWaits), maxChildren)] {
		data.LimitText = append(data.LimitText, limitLine{
			Text: diagnose.LimitWait(w, q.now), URL: limitURL(w.Action, w.Key),
		})
	}
	if d.Status == client.Paused {
		data.Waits = "Is" + strings.TrimPrefix(diagnose.OwnObstacle(d), "it is")
		data.Help = []link{{Name: "Resume…", URL: instancePath(d.Instance) + "/resume", Changes: true}}
		return
	}
	waits, obstacle := diagnose.WaitsFor(d), diagnose.Obstacle(q.Context(), q.client, d)
	switch {
	case onlyLimits(d):
		data.Waits = "Waits at a limit"
	case obstacle != "":
		data.Waits, data.Bad = "Cannot proceed: "+obstacle, true
	case waits != "":
		data.Waits = "Waits for " + waits
	case d.UnreadInputs > 0:
		data.Waits = fmt.Sprintf("Has %s to process", diagnose.Counted(int(d.UnreadInputs), "input")) //nolint:gosec // a length
	}
	if len(d.AwaitedEvents) == 0 && strings.HasSuffix(waits, "event") { // the awaited event is unknown
		data.Help = append(data.Help, link{Name: "Send event…", URL: instancePath(d.Instance) + "/send", Changes: true})
	}
	for _, name := range d.AwaitedEvents[:min(len(d.AwaitedEvents), maxChildren)] {
		data.Help = append(data.Help, link{Name: "Send " + name + "…", URL: instancePath(d.Instance) + "/send?" + url.Values{"name": {name}}.Encode(), Changes: true})
	}
	for _, name := range d.AwaitedUpdates[:min(len(d.AwaitedUpdates), maxChildren)] {
		data.Help = append(data.Help, link{Name: "Send update " + name + "…", URL: instancePath(d.Instance) + "/update?" + url.Values{"name": {name}}.Encode(), Changes: true})
	}
	if len(d.LimitWaits) > 0 && d.LimitWaits[0].Policy.Paused {
		data.Help = append(data.Help, link{Name: "Resume " + d.LimitWaits[0].Action + "…", URL: actionPath(d.LimitWaits[0].Action) + "/resume", Changes: true})
	}
	if len(d.LimitWaits) > 0 {
		data.Help = append(data.Help, link{Name: "Open limit " + d.LimitWaits[0].Action, URL: limitURL(d.LimitWaits[0].Action, d.LimitWaits[0].Key)})
	}
	if len(d.Children) > 0 {
		data.Help = append(data.Help, link{Name: "Open child", URL: instancePath(d.Children[0].Instance)})
	}
	if d.Stalled != "" {
		data.Help = append(data.Help, link{Name: "How to resolve it", URL: "/stalled"})
	} else if data.Bad && len(d.Activities) > 0 {
		data.Help = append(data.Help, link{Name: "Workers", URL: "/workers"})
	}
}

// onlyLimits reports whether the instance only waits for limits, and so continues when it is admitted.
func onlyLimits(d client.Description) bool {
	for _, o := range d.Activities {
		if _, waits := diagnose.WaitOf(d.LimitWaits, o.Event); !waits {
			return false
		}
	}
	deadlocked := slices.ContainsFunc(d.LimitWaits, func(w client.LimitWait) bool { return w.Deadlocked })
	return len(d.LimitWaits) > 0 && !deadlocked && d.Stalled == ""
}

func limitURL(action, key string) string {
	u := actionPath(action)
	if key != "" {
		u += "?" + url.Values{"key": {key}}.Encode()
	}
	return u
}

// history reads a page of the history, by default the last one.
func (q *request) history(d client.Description, data *instanceData) error {
	execution, _ := strconv.ParseUint(q.FormValue("execution"), 10, 63)
	after, err := strconv.ParseUint(q.FormValue("after"), 10, 63)
	total := d.Events
	if execution != 0 && execution != d.Execution {
		total = 0 // unknown
	}
	if err != nil && total > 0 {
		after = total - min(total, eventRows)
	}
	entries, err := q.entries(d.Instance, execution, after, eventRows+1)
	if len(entries) == 0 && (err == nil || d.Events == 0) { // it has not begun
		return nil
	}
	if err != nil {
		return err
	}
	more := len(entries) > eventRows
	entries = entries[:min(len(entries), eventRows)]
	for _, e := range entries {
		row, err := rowOf(d.Instance, e, after)
		if err != nil {
			return err
		}
		data.Events = append(data.Events, row)
	}
	begin := entries
	if after > 0 {
		if begin, err = q.entries(d.Instance, execution, 0, 1); err != nil {
			return err
		}
	}
	if started, is := begin[0].Event.(*history.Started); is {
		data.Input, data.By = show.Payload(started.Payload), started.By
	}
	until := int64(0)
	if data.Live && !more && entries[0].Execution == d.Execution {
		until = q.now.UnixMilli()
	}
	data.Rewinds = entries[0].Execution == d.Execution && kindOf(d.Orchestration) == ""
	data.Timeline = timelineOf(entries, d, until)
	data.Pages = pagesOf(d, entries, execution, after, total, more)
	return nil
}

// entries reads n events after one.
func (q *request) entries(id string, execution, after uint64, n int) (out []client.Entry, _ error) {
	for e, err := range q.client.HistoryAfter(q.Context(), id, execution, after, n) {
		if err != nil {
			return out, err
		}
		if out = append(out, e); len(out) == n {
			break
		}
	}
	return out, nil
}

func pagesOf(d client.Description, entries []client.Entry, execution, after, total uint64, more bool) pager {
	page := func(after uint64) string {
		v := url.Values{"after": {strconv.FormatUint(after, 10)}}
		if execution != 0 {
			v.Set("execution", strconv.FormatUint(execution, 10))
		}
		return instancePath(d.Instance) + "?" + v.Encode() + "#history"
	}
	p := pager{From: after + 1, To: after + uint64(len(entries)), Of: total}
	if after > 0 {
		p.First, p.Previous = page(0), page(after-min(after, eventRows))
	}
	if more {
		p.Next = page(after + eventRows)
		if total > 0 {
			p.Last = page(total - eventRows)
		}
	}
	shown := entries[0].Execution
	for e := max(d.Execution, 2) - 1; d.Execution > 1 && e <= d.Execution; e++ { // only the latest two executions are kept
		n := strconv.FormatUint(e, 10)
		p.Executions = append(p.Executions, link{Name: n, URL: instancePath(d.Instance) + "?execution=" + n + "#history", Current: e == shown})
	}
	return p
}

func rowOf(id string, e client.Entry, after uint64) (eventRow, error) {
	line, err := api.HistoryEventOf(id, e)
	if err != nil {
		return eventRow{}, err
	}
	fields, err := json.Marshal(line.Fields)
	if err != nil {
		return eventRow{}, fmt.Errorf("console: event %d: %w", line.ID, err)
	}
	text := show.Summary(e.Event)
	if e.Report != nil {
		text += " → " + diagnose.CancelOutcome(*e.Report)
	}
	r := eventRow{
		ID: line.ID, At: line.At, Clock: e.Event.Meta().Time().Format("15:04:05.000"), Kind: line.Kind, Text: diagnose.Short(diagnose.OneLine(text), 200),
	}
	if r.Of = causeOf(e.Event); r.Of > 0 {
		r.OfURL = "#e" + strconv.FormatUint(r.Of, 10)
		r.Text = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(r.Text, "of "+r.OfURL[2:]), ":"))
		if r.Of <= after { // on an earlier page
			r.OfURL = fmt.Sprintf("?execution=%d&after=%d%s", e.Execution, (r.Of-1)/eventRows*eventRows, r.OfURL)
		}
	}
	if len(line.Fields) > 0 {
		r.Details = diagnose.Short(formatJSON(fields), maxField)
	}
	return r, nil
}

// causeOf returns the event that e completes; zero: none.
func causeOf(e history.Event) uint64 {
	switch v := e.(type) {
	case *history.Granted:
		return v.Scheduled
	case *history.ActivityCompleted:
		return v.Scheduled
	case *history.ActivityFailed:
		return v.Scheduled
	case *history.ActivityCancelRequested:
		return v.Scheduled
	case *history.UpdateAnswered:
		return v.Update
	case *history.TimerFired:
		return v.Timer
	case *history.TimerCancelled:
		return v.Timer
	case *history.ChildCompleted:
		return v.Scheduled
	case *history.ChildFailed:
		return v.Scheduled
	case *history.ChildCancelRequested:
		return v.Scheduled
	default:
		return 0
	}
}

// awaitChange waits up to a second until an instance has more than a number of events, so that the page after a change shows its
// effect.
func (q *request) awaitChange(id string, events uint64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Second); ; {
		if d, err := q.client.Describe(q.Context(), id); err == nil && (d.Events > events || !d.Ended.IsZero()) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			return
		case <-q.Context().Done():
			return
		}
	}
}

// events returns the number of events of an instance; zero: unknown.
func (q *request) events(id string) uint64 {
	d, err := q.client.Describe(q.Context(), id)
	if err != nil {
		return 0
	}
	return d.Events
}
