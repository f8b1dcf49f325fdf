package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/pkg/client"
)

const (
	scheduleRows = "200"
	nextTimes    = 10
	maxBackfill  = 1000 // times per backfill, which is the limit of the schedule
)

func schedulePath(id string) string { return "/schedules/" + url.PathEscape(id) }

func listSchedules(q *request) (view, error) {
	var all api.Schedules
	err := q.call(http.MethodGet, "/schedules", url.Values{"limit": {scheduleRows}}, nil, &all)
	live := "/api/v1/watch?where=" + url.QueryEscape(`orchestration = "`+builtin.Schedules.Name()+`"`) + "&"
	return view{template: "schedules", title: "Schedules", section: "schedules", data: all, live: live}, err
}

// scheduleData is the page of a schedule.
type scheduleData struct {
	api.Schedule

	Next  []moment
	Ended bool
	Error string // why there are no next times
}

// moment is a time in UTC and in the zone of a schedule.
type moment struct{ UTC, There, In string }

// moments returns the next times of a schedule.
func moments(s client.Schedule, from time.Time) ([]moment, error) {
	times, err := s.Next(from, nextTimes)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	out := make([]moment, len(times))
	for i, t := range times {
		out[i] = moment{api.Timestamp(t), t.In(zone).Format("Mon 2006-01-02 15:04:05 MST"), diagnose.Duration(roundLong(t.Sub(from)))}
	}
	return out, nil
}

// roundLong rounds a long duration to its largest unit.
func roundLong(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if d >= 10*unit {
			return d.Round(unit)
		}
	}
	return d
}

func showSchedule(q *request) (view, error) {
	var d scheduleData
	path := schedulePath(q.PathValue("id"))
	if err := q.call(http.MethodGet, path, nil, nil, &d.Schedule); err != nil {
		return view{}, err
	}
	d.Ended = d.Schedule.Next.IsZero() && !d.Schedule.Schedule.Paused && d.Running == ""
	slices.Reverse(d.Recent) // latest first
	var err error
	if d.Next, err = moments(d.Schedule.Schedule, q.now); err != nil {
		d.Error = err.Error()
	}
	return view{template: "schedule", title: d.ID, section: "schedules", data: d, live: "/api/v1" + instancePath(d.ID) + "/watch?"}, nil
}

// commandSchedule pauses, resumes or triggers a schedule.
func commandSchedule(q *request) (view, error) {
	path := schedulePath(q.PathValue("id"))
	var body any
	if note := strings.TrimSpace(q.PostFormValue("note")); note != "" {
		body = map[string]string{"note": note}
	}
	err := q.call(http.MethodPost, path+"/"+url.PathEscape(q.PathValue("command")), nil, body, nil)
	return view{redirect: path}, err
}

func deleteScheduleForm(q *request) (view, error) {
	id := q.PathValue("id")
	return confirmation(confirmData{
		Section: "schedules", Title: "Delete schedule " + id, Back: schedulePath(id), Button: "Delete the schedule",
		Effects: []string{"Its times pass without effect, and its counts are removed.", "Instances that it has started continue."},
		Command: "pawl schedule delete " + shellQuote(id),
	}), nil
}

func deleteSchedule(q *request) (view, error) {
	return view{redirect: "/schedules"}, q.call(http.MethodDelete, schedulePath(q.PathValue("id")), nil, nil, nil)
}

// backfillData is the form of a backfill.
type backfillData struct{ ID, From, To, Problem string }

// backfillForm asks for two times, then counts the times between them and asks for a confirmation.
func backfillForm(q *request) (view, error) {
	d := backfillData{ID: q.PathValue("id"), From: q.FormValue("from"), To: q.FormValue("to")}
	v := view{template: "backfill", title: "Backfill " + d.ID, section: "schedules", data: d}
	if d.From == "" && d.To == "" {
		return v, nil
	}
	from, err := utc(d.From)
	to, err2 := utc(d.To)
	if err = errors.Join(err, err2); err == nil && !from.Before(to) {
		err = errors.New("the first time must be before the second")
	}
	if err != nil {
		d.Problem, v.status = err.Error(), http.StatusBadRequest
		v.data = d
		return v, nil //nolint:nilerr // the form shows it
	}
	var s api.Schedule
	if err := q.call(http.MethodGet, schedulePath(d.ID), nil, nil, &s); err != nil {
		return view{}, err
	}
	times, err := s.Schedule.Next(from, maxBackfill)
	if err != nil {
		return view{}, err
	}
	times = slices.DeleteFunc(times, func(t time.Time) bool { return t.After(to) })
	if len(times) == 0 {
		d.Problem, v.data = "The schedule has no times in between.", d
		return v, nil
	}
	effects := []string{
		diagnose.ScheduleAction(s.Schedule) + " for each of " + diagnose.Counted(len(times), "time") + ", from " + api.Timestamp(times[0]) + " to " + api.Timestamp(times[len(times)-1]) + ".",
		"Each starts when the previous one has ended, unless the schedule allows overlaps. A time that already has an instance is skipped.",
	}
	if len(times) == maxBackfill {
		effects = append(effects, "There may be more times: a backfill covers at most 1,000. Repeat it for the rest.")
	}
	return confirmation(confirmData{
		Section: "schedules", Title: "Backfill " + d.ID, Back: schedulePath(d.ID) + "/backfill", Effects: effects, Button: "Do " + diagnose.Counted(len(times), "action"), Mild: true,
		Fields:  []field{{Name: "from", Value: api.Timestamp(from), Kind: "hidden"}, {Name: "to", Value: api.Timestamp(to), Kind: "hidden"}},
		Command: "pawl schedule backfill " + shellQuote(d.ID) + " --from " + api.Timestamp(from) + " --to " + api.Timestamp(to),
	}), nil
}

func backfill(q *request) (view, error) {
	path := schedulePath(q.PathValue("id"))
	body := map[string]string{"from": q.PostFormValue("from"), "to": q.PostFormValue("to")}
	return view{redirect: path}, q.call(http.MethodPost, path+"/backfill", nil, body, nil)
}

// utc parses RFC 3339, or the value of a field for a date and a time.
func utc(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2026-11-01T00:00", s)
}

// scheduleForm is the form of a schedule: fields for common settings, and JSON for the rest.
type scheduleForm struct {
	ID, Cron, Zone             string
	Action, Name, Event, Input string
	CatchUp                    string
	Overlap                    client.Overlap
	Remaining, Note, Further   string
	PauseOnFailure, Paused     bool
	Exists                     bool
	Problem                    string
	Next                       []moment
	Known                      api.Registered
}

func (q *request) formOfSchedule(id string) (f scheduleForm, err error) {
	f = scheduleForm{ID: id, Action: "run", Overlap: client.OverlapSkip}
	if id == "" {
		return f, nil
	}
	var s api.Schedule
	if err := q.call(http.MethodGet, schedulePath(id), nil, nil, &s); err != nil {
		return f, err
	}
	c := s.Schedule
	f.Exists, f.Cron, f.Zone, f.Note = true, strings.Join(c.Cron, "\n"), c.Zone, c.Note
	f.PauseOnFailure, f.Paused = c.PauseOnFailure, c.Paused
	if c.Overlap != "" {
		f.Overlap = c.Overlap
	}
	if c.CatchUp > 0 {
		f.CatchUp = diagnose.Span(c.CatchUp.Std())
	}
	if c.Remaining > 0 {
		f.Remaining = strconv.Itoa(c.Remaining)
	}
	var input json.RawMessage
	switch {
	case c.Start != nil:
		f.Action, f.Name, input = "start", c.Start.Orchestration, c.Start.Input
		c.Start.Orchestration, c.Start.Input = "", nil
	case c.Run != nil:
		f.Action, f.Name, input = "run", c.Run.Activity, c.Run.Input
		c.Run.Activity, c.Run.Input = "", nil
	case c.Send != nil:
		f.Action, f.Name, f.Event, input = "send", c.Send.Instance, c.Send.Event, c.Send.Input
		c.Send = nil
	}
	if len(input) > 0 {
		f.Input = formatJSON(input)
	}
	c.Cron, c.Zone, c.Note, c.PauseOnFailure, c.Paused, c.Overlap, c.CatchUp, c.Remaining = nil, "", "", false, false, "", 0, 0
	rest, err := furtherSettings(c)
	f.Further = rest
	return f, err
}

// furtherSettings returns the settings without a field of their own as JSON; empty: none.
func furtherSettings(c client.Schedule) (string, error) {
	b, err := json.Marshal(c) //nolint:musttag // of limits, whose fields have no tags
	if err != nil {
		return "", fmt.Errorf("console: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return "", fmt.Errorf("console: %w", err)
	}
	for name, empty := range map[string]string{"run": "activity", "start": "orchestration"} {
		action, is := fields[name].(map[string]any)
		if delete(action, empty); is && len(action) == 0 {
			delete(fields, name)
		}
	}
	if len(fields) == 0 {
		return "", nil
	}
	return configJSON(fields), nil
}

func (q *request) postedSchedule() (f scheduleForm, s client.Schedule, err error) {
	field := func(name string) string { return strings.TrimSpace(q.PostFormValue(name)) }
	f = scheduleForm{
		ID: field("id"), Cron: q.PostFormValue("cron"), Zone: field("zone"), Action: field("action"), Name: field("name"), Event: field("event"),
		Input: q.PostFormValue("input"), Overlap: client.Overlap(field("overlap")), CatchUp: field("catch_up"), Remaining: field("remaining"), Note: field("note"),
		Further: q.PostFormValue("further"), PauseOnFailure: field("pause_on_failure") != "", Paused: field("paused") != "", Exists: field("exists") != "",
	}
	input, err := q.jsonField("input")
	if err != nil {
		return f, s, err
	}
	if strings.TrimSpace(f.Further) != "" {
		d := json.NewDecoder(bytes.NewReader([]byte(f.Further)))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil { //nolint:musttag // as above
			return f, s, fmt.Errorf("further settings: %w", err)
		}
	}
	for line := range strings.Lines(f.Cron) {
		if line = strings.TrimSpace(line); line != "" {
			s.Cron = append(s.Cron, line)
		}
	}
	s.Zone, s.Overlap, s.Note, s.PauseOnFailure, s.Paused = f.Zone, f.Overlap, f.Note, f.PauseOnFailure, f.Paused
	if f.CatchUp != "" {
		var d client.Duration
		if err := d.UnmarshalText([]byte(f.CatchUp)); err != nil {
			return f, s, fmt.Errorf("%q is not a duration such as 1h", f.CatchUp)
		}
		s.CatchUp = d
	}
	if f.Remaining != "" {
		if s.Remaining, err = strconv.Atoi(f.Remaining); err != nil {
			return f, s, fmt.Errorf("%q is not a number", f.Remaining)
		}
	}
	setAction(&s, f, input)
	return f, s, s.Check()
}

// setAction sets the action from the form, and keeps its further settings.
func setAction(s *client.Schedule, f scheduleForm, input json.RawMessage) {
	start, run := s.Start, s.Run
	s.Start, s.Run, s.Send = nil, nil, nil
	switch f.Action {
	case "start":
		if s.Start = start; start == nil {
			s.Start = &client.ScheduleStart{}
		}
		s.Start.Orchestration, s.Start.Input = f.Name, input
	case "run":
		if s.Run = run; run == nil {
			s.Run = &client.Job{}
		}
		s.Run.Activity, s.Run.Input = f.Name, input
	case "send":
		s.Send = &client.ScheduleSend{Instance: f.Name, Event: f.Event, Input: input}
	}
}

func (c *console) editSchedule(q *request) (view, error) {
	f, err := q.formOfSchedule(q.FormValue("id"))
	if err != nil {
		return view{}, err
	}
	return c.scheduleView(q, f), nil
}

func (c *console) scheduleView(q *request, f scheduleForm) view {
	workers, _, _ := c.workers.latest(q.client) // the form works without them
	f.Known = api.RegisteredOf(q.orchestrations(), workers)
	title := "New schedule"
	if f.Exists {
		title = "Change schedule " + f.ID
	}
	return view{template: "schedule-form", title: title, section: "schedules", data: f}
}

// saveSchedule creates or changes a schedule, or previews the next times.
func (c *console) saveSchedule(q *request) (view, error) {
	f, s, err := q.postedSchedule()
	if err == nil && q.PostFormValue("preview") != "" {
		if f.Next, err = moments(s, q.now); err == nil {
			return c.scheduleView(q, f), nil
		}
	}
	if err == nil && f.ID == "" {
		err = errors.New("an id is required")
	}
	status := http.StatusBadRequest
	if err == nil {
		if err = q.call(http.MethodPut, schedulePath(f.ID), nil, s, nil); err == nil {
			return view{redirect: schedulePath(f.ID)}, nil
		}
		if status = problemOf(err).Status; status >= http.StatusInternalServerError {
			return view{}, err
		}
	}
	f.Problem = err.Error()
	v := c.scheduleView(q, f)
	v.status = status
	return v, nil
}

var overlaps = []client.Overlap{
	client.OverlapSkip, client.OverlapBufferOne, client.OverlapBufferAll, client.OverlapCancelOther, client.OverlapTerminateOther, client.OverlapAllowAll,
}

// overlapText describes what happens at a time while an instance of the schedule is running.
func overlapText(o client.Overlap) string {
	switch o {
	case client.OverlapBufferOne:
		return "One time is buffered until it ends; further times are skipped."
	case client.OverlapBufferAll:
		return "All times are buffered until it ends."
	case client.OverlapCancelOther:
		return "The next time cancels it."
	case client.OverlapTerminateOther:
		return "The next time terminates it."
	case client.OverlapAllowAll:
		return "Times do not wait for it."
	default:
		return "Times are skipped while it runs."
	}
}

// configJSON encodes the configuration of a schedule.
func configJSON(s any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the template escapes it
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return err.Error()
	}
	return b.String()
}
