package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/diagnose"
)

// kindOf returns the kind of a built-in orchestration, and an empty string for others.
func kindOf(orchestration string) string {
	switch orchestration {
	case builtin.JobName:
		return "job"
	case builtin.Schedules.Name():
		return "schedule"
	case builtin.Batches.Name():
		return "batch"
	default:
		return ""
	}
}

// showJobInput shows the instance of a job as the call of an activity.
func (data *instanceData) showJobInput() {
	var j builtin.Job
	if data.Orchestration != builtin.JobName || json.Unmarshal(data.Input, &j) != nil { //nolint:musttag // of limits, whose fields have no tags
		return
	}
	data.Job = j.Activity
	if j.Queue != "" && j.Queue != j.Activity {
		data.JobNotes = append(data.JobNotes, "queue "+j.Queue)
	}
	if j.After > 0 {
		data.JobNotes = append(data.JobNotes, "after "+diagnose.Span(j.After.Std()))
	}
	if r := j.Retry; r != nil && r.Attempts > 1 {
		data.JobNotes = append(data.JobNotes, fmt.Sprintf("up to %d attempts", r.Attempts))
	}
	if j.AttemptTimeout > 0 {
		data.JobNotes = append(data.JobNotes, "each within "+diagnose.Span(j.AttemptTimeout.Std()))
	}
	if j.Within > 0 {
		data.JobNotes = append(data.JobNotes, "within "+diagnose.Span(j.Within.Std()))
	}
	data.Input = j.Input
	if data.Live && data.Timers > 0 && len(data.Activities) == 0 { // no event can help
		data.Waits, data.Help = "Waits to run "+j.Activity, nil
	}
}

// runData is the form that runs a job.
type runData struct {
	Activity, Queue, ID, Input, After, Within, Attempts, AttemptTimeout, Problem string
	Known                                                                        []string // activities
}

func (c *console) runView(q *request, d runData) view {
	workers, _, _ := c.workers.latest(q.client) // the form works without them
	d.Known = api.RegisteredOf(nil, workers).Activities
	return view{template: "run", title: "Run a job", section: "start", data: d}
}

func (c *console) runForm(q *request) (view, error) {
	return c.runView(q, runData{Activity: q.FormValue("activity"), Queue: q.FormValue("queue")}), nil
}

func (c *console) runJob(q *request) (view, error) {
	field := func(name string) string { return strings.TrimSpace(q.PostFormValue(name)) }
	d := runData{
		Activity: field("activity"), Queue: field("queue"), ID: field("id"), Input: q.PostFormValue("input"), After: field("after"),
		Within: field("within"), Attempts: field("attempts"), AttemptTimeout: field("attempt_timeout"),
	}
	body := map[string]any{"activity": d.Activity}
	for name, value := range map[string]string{"queue": d.Queue, "id": d.ID, "after": d.After, "within": d.Within, "attempt_timeout": d.AttemptTimeout} {
		if value != "" {
			body[name] = value
		}
	}
	input, err := q.jsonField("input")
	if err == nil && input != nil {
		body["input"] = input
	}
	if err == nil && d.Attempts != "" {
		if body["attempts"], err = strconv.Atoi(d.Attempts); err != nil {
			err = &apiError{Status: http.StatusBadRequest, Detail: fmt.Sprintf("attempts: %q is not a number", d.Attempts)}
		}
	}
	var a api.Accepted
	if err == nil {
		err = q.call(http.MethodPost, "/jobs", nil, body, &a)
	}
	if err == nil {
		q.awaitChange(a.Instance, 0)
		return view{redirect: instancePath(a.Instance)}, nil
	}
	e := problemOf(err)
	if e.Status >= http.StatusInternalServerError {
		return view{}, err
	}
	d.Problem = e.Detail
	v := c.runView(q, d)
	v.status = e.Status
	return v, nil
}
