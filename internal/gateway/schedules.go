package gateway

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/client"
)

// job is a request to run an activity.
type job struct {
	Activity string          `json:"activity"`
	Queue    string          `json:"queue,omitempty"`    // task queue; default: the name of the activity
	ID       string          `json:"id,omitempty"`       // default: made of the Idempotency-Key
	Input    json.RawMessage `json:"input,omitempty"`    // default: none
	After    string          `json:"after,omitempty"`    // delay, such as 1h; default: none
	Within   string          `json:"within,omitempty"`   // maximum time of all attempts; default: none
	Attempts int             `json:"attempts,omitempty"` // default 1
	Wait     string          `json:"wait,omitempty"`     // for the end, such as 30s, at most 1m; default: none
}

// command is what changes a schedule.
type command struct {
	Note string    `json:"note,omitempty"` // of pause and resume
	From time.Time `json:"from,omitzero"`  // of backfill, exclusive
	To   time.Time `json:"to,omitzero"`    // of backfill, inclusive
}

func scheduleOperations() []operation {
	const schedule = root + "/schedules/{id}"
	return []operation{
		{
			method: http.MethodPost, path: root + "/jobs", id: "runJob", role: access.Operator, serve: runJob, keyed: true,
			summary: "Run an activity as a job, wait for its end.", request: job{}, replies: map[int]any{200: api.Outcome{}, 202: api.Accepted{}},
		},
		{
			method: http.MethodGet, path: schedule, id: "getSchedule", role: access.Viewer, serve: getSchedule,
			summary: "Describe a schedule.", replies: map[int]any{200: any(anyJSON{})},
		},
		{
			method: http.MethodPut, path: schedule, id: "putSchedule", role: access.Operator, serve: putSchedule,
			summary: "Create a schedule, or replace its configuration; docs/guide/schedules.md has its members.", request: any(anyJSON{}),
			replies: map[int]any{202: api.Accepted{}},
		},
		{
			method: http.MethodDelete, path: schedule, id: "deleteSchedule", role: access.Operator, serve: deleteSchedule,
			summary: "Delete a schedule; what it has started continues.", replies: map[int]any{202: api.Accepted{}},
		},
		{
			method: http.MethodPost, path: schedule + "/{command}", id: "commandSchedule", role: access.Operator, serve: commandSchedule,
			summary: "Pause, resume, trigger or backfill a schedule.", request: command{}, optional: true, replies: map[int]any{202: api.Accepted{}},
		},
	}
}

// runJob runs an activity as startInstance starts an instance.
func runJob(c *call) (answer, error) {
	var j job
	if err := c.decode(&j); err != nil {
		return answer{}, err
	}
	timeout, err := wait(j.Wait)
	if err != nil {
		return answer{}, err
	}
	key, err := c.key()
	if err != nil {
		return answer{}, err
	}
	opts := []client.JobOption{client.By(c.user.Name)}
	if key != "" {
		opts = append(opts, client.MessageID(key))
	}
	after, err := duration(j.After)
	if err != nil {
		return answer{}, err
	}
	within, err := duration(j.Within)
	if err != nil {
		return answer{}, err
	}
	opts = append(opts, client.After(after), client.Within(within))
	if j.Attempts > 1 {
		opts = append(opts, client.Retry(pawl.Retry{Attempts: j.Attempts}))
	}
	if j.ID == "" {
		j.ID = j.Activity + "-" + suffix(key)
	}
	run, err := c.client.RunRaw(c.Context(), j.Activity, j.Queue, j.ID, payload(j.Input), opts...)
	if err != nil {
		return answer{}, err
	}
	return c.await(run, timeout)
}

// duration reads a duration; empty is zero.
func duration(s string) (time.Duration, error) {
	var d text.Duration
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return 0, badRequest("%q is no duration such as 1h", s)
	}
	return d.Std(), nil
}

func getSchedule(c *call) (answer, error) {
	s, err := c.client.DescribeSchedule(c.Context(), c.PathValue("id"))
	return answer{body: s}, err
}

func putSchedule(c *call) (answer, error) {
	var s client.Schedule
	if err := c.decode(&s); err != nil {
		return answer{}, err
	}
	if err := s.Check(); err != nil {
		return answer{}, badRequest("%v", err)
	}
	return c.changed(c.client.CreateSchedule(c.Context(), c.PathValue("id"), s, client.By(c.user.Name)))
}

func deleteSchedule(c *call) (answer, error) {
	return c.changed(c.client.DeleteSchedule(c.Context(), c.PathValue("id")))
}

func commandSchedule(c *call) (answer, error) {
	var do command
	if err := c.decode(&do); err != nil {
		return answer{}, err
	}
	id, by := c.PathValue("id"), client.By(c.user.Name)
	switch name := c.PathValue("command"); name {
	case "pause":
		return c.changed(c.client.PauseSchedule(c.Context(), id, do.Note, by))
	case "resume":
		return c.changed(c.client.ResumeSchedule(c.Context(), id, do.Note, by))
	case "trigger":
		return c.changed(c.client.TriggerSchedule(c.Context(), id, by))
	case "backfill":
		if !do.From.Before(do.To) {
			return answer{}, badRequest("from must be before to")
		}
		return c.changed(c.client.BackfillSchedule(c.Context(), id, do.From, do.To, by))
	default:
		return answer{}, badRequest("%q is none of pause, resume, trigger and backfill", name)
	}
}

// changed answers that a change of the schedule was accepted.
func (c *call) changed(err error) (answer, error) {
	return answer{status: http.StatusAccepted, body: api.Accepted{Instance: c.PathValue("id"), Accepted: true}}, err
}
