package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/access"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/client"
)

// job is the body of a request to run an activity as a job.
type job struct {
	Activity       string          `json:"activity"`
	Queue          string          `json:"queue,omitempty"`           // task queue; default: the name of the activity
	ID             string          `json:"id,omitempty"`              // default: derived from the Idempotency-Key
	Input          json.RawMessage `json:"input,omitempty"`           // default: none
	After          string          `json:"after,omitempty"`           // delay, such as 1h; default: none
	Within         string          `json:"within,omitempty"`          // maximum time of all attempts together; default: none
	Attempts       int             `json:"attempts,omitempty"`        // default 1
	AttemptTimeout string          `json:"attempt_timeout,omitempty"` // maximum time of each attempt; default: none
	Wait           string          `json:"wait,omitempty"`            // time to wait for the end, such as 30s, at most 1m; default: none
}

// command is the body of a request that changes a schedule.
type command struct {
	Note string    `json:"note,omitempty"` // pause and resume
	From time.Time `json:"from,omitzero"`  // backfill: exclusive
	To   time.Time `json:"to,omitzero"`    // backfill: inclusive
}

// schedules documents api.Schedules in OpenAPI, where a configuration is any JSON value.
type schedules struct {
	Schedules []anyJSON `json:"schedules"`
	More      bool      `json:"more,omitempty"`
}

func scheduleOperations() []operation {
	const schedule = root + "/schedules/{id}"
	return []operation{
		{
			method: http.MethodPost, path: root + "/jobs", id: "runJob", role: access.Operator, serve: runJob, keyed: true,
			summary: "Run an activity as a job, wait for its end.", request: job{}, replies: map[int]any{200: api.Outcome{}, 202: api.Accepted{}},
		},
		get(root+"/schedules", "listSchedules", listSchedules, schedules{},
			"List the schedules that have not ended.", limitParam),
		get(schedule+"/next", "nextTimes", nextTimes, api.Times{},
			"List the next times of a schedule.",
			parameter{name: "count", description: "1 to 1000. Default 10.", kind: "integer"}),
		get(schedule, "getSchedule", getSchedule, any(anyJSON{}),
			"Describe a schedule."),
		{
			method: http.MethodPut, path: schedule, id: "putSchedule", role: access.Operator, serve: putSchedule,
			summary: "Create a schedule, or replace its configuration; docs/guide/schedules.md describes its fields.", request: any(anyJSON{}),
			replies: map[int]any{202: api.Accepted{}},
		},
		{
			method: http.MethodDelete, path: schedule, id: "deleteSchedule", role: access.Operator, serve: deleteSchedule,
			summary: "Delete a schedule; what it has started continues.", replies: map[int]any{202: api.Accepted{}},
		},
		scheduleCommand("pause", "Pause a schedule: its times pass without effect.", func(c *call, id string, do command, opts []client.Option) error {
			return c.client.PauseSchedule(c.Context(), id, do.Note, opts...)
		}),
		scheduleCommand("resume", "Resume a schedule.", func(c *call, id string, do command, opts []client.Option) error {
			return c.client.ResumeSchedule(c.Context(), id, do.Note, opts...)
		}),
		scheduleCommand("trigger", "Run the action of a schedule now.", func(c *call, id string, _ command, opts []client.Option) error {
			return c.client.TriggerSchedule(c.Context(), id, opts...)
		}),
		scheduleCommand("backfill", "Run the action of a schedule for times that have passed.", func(c *call, id string, do command, opts []client.Option) error {
			if !do.From.Before(do.To) {
				return badRequest("from must be before to")
			}
			return c.client.BackfillSchedule(c.Context(), id, do.From, do.To, opts...)
		}),
	}
}

func scheduleCommand(name, summary string, do func(*call, string, command, []client.Option) error) operation {
	return operation{
		method: http.MethodPost, path: root + "/schedules/{id}/" + name, id: name + "Schedule", role: access.Operator, keyed: true, summary: summary,
		request: command{}, optional: true, replies: map[int]any{202: api.Accepted{}},
		serve: func(c *call) (answer, error) {
			var body command
			if err := c.decode(&body); err != nil {
				return answer{}, err
			}
			opts, err := c.options()
			if err != nil {
				return answer{}, err
			}
			return c.changed(do(c, c.PathValue("id"), body, opts))
		},
	}
}

// runJob runs an activity as a job and, with wait, waits for its end.
func runJob(c *call) (answer, error) {
	var j job
	if err := c.decode(&j); err != nil {
		return answer{}, err
	}
	timeout, err := wait(j.Wait)
	if err != nil {
		return answer{}, err
	}
	shared, err := c.options()
	if err != nil {
		return answer{}, err
	}
	after, err := duration(j.After)
	if err != nil {
		return answer{}, err
	}
	within, err := duration(j.Within)
	if err != nil {
		return answer{}, err
	}
	attempt, err := duration(j.AttemptTimeout)
	if err != nil {
		return answer{}, err
	}
	opts := []client.JobOption{client.After(after), client.Within(within), client.AttemptTimeout(attempt)}
	for _, o := range shared {
		opts = append(opts, o)
	}
	if j.Attempts > 1 {
		opts = append(opts, client.Retry(pawl.Retry{Attempts: j.Attempts}))
	}
	if j.ID == "" {
		j.ID = j.Activity + "-" + c.idSuffix()
	}
	run, err := c.client.RunRaw(c.Context(), j.Activity, j.Queue, j.ID, payload(j.Input), opts...)
	if err != nil {
		return answer{}, err
	}
	return c.await(run, timeout)
}

// duration parses a duration. An empty text is zero.
func duration(s string) (time.Duration, error) {
	var d text.Duration
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return 0, badRequest("%q: must be a duration such as 1h", s)
	}
	return d.Std(), nil
}

func getSchedule(c *call) (answer, error) {
	id := c.PathValue("id")
	s, err := c.client.DescribeSchedule(c.Context(), id)
	return answer{body: api.Schedule{ID: id, ScheduleState: s}}, err
}

// describeRows completes the rows of a list, 16 at a time, and removes those that do not exist anymore.
func describeRows[Row any](rows []Row, describe func(*Row) (exists bool, err error)) ([]Row, error) {
	exists := make([]bool, len(rows))
	var reads errgroup.Group
	reads.SetLimit(16)
	for i := range rows {
		reads.Go(func() (err error) {
			exists[i], err = describe(&rows[i])
			return err
		})
	}
	err := reads.Wait()
	kept := rows[:0]
	for i, row := range rows {
		if exists[i] {
			kept = append(kept, row)
		}
	}
	return kept, err
}

func listSchedules(c *call) (answer, error) {
	limit, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	var out api.Schedules
	out.Schedules, out.More, err = firstOf(c.client.Schedules(c.Context()), limit, func(row client.Summary) api.Schedule { return api.Schedule{ID: row.Instance} })
	if err != nil {
		return answer{}, err
	}
	out.Schedules, err = describeRows(out.Schedules, func(s *api.Schedule) (_ bool, err error) {
		s.ScheduleState, err = c.client.DescribeSchedule(c.Context(), s.ID)
		if errors.Is(err, client.ErrNoSchedule) || errors.Is(err, client.ErrNoStatus) { // just deleted, or just created
			return false, nil
		}
		return true, err
	})
	slices.SortFunc(out.Schedules, func(a, b api.Schedule) int { return strings.Compare(a.ID, b.ID) })
	return answer{body: out}, err
}

// defaultTimes is the default number of upcoming times.
const defaultTimes = 10

func nextTimes(c *call) (answer, error) {
	n, err := c.number("count")
	if err != nil {
		return answer{}, err
	}
	if n == 0 {
		n = defaultTimes
	}
	if n > maxRows {
		return answer{}, badRequest("count %d: must be 1 to %d", n, maxRows)
	}
	s, err := c.client.DescribeSchedule(c.Context(), c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	out := api.Times{Times: []string{}}
	times, err := s.Schedule.Next(time.Now(), int(n))
	for _, t := range times {
		out.Times = append(out.Times, api.Timestamp(t))
	}
	return answer{body: out}, err
}

// registered lists the orchestrations and activities that the fleet has code for.
func registered(c *call) (answer, error) {
	names, err := c.client.Orchestrations(c.Context())
	if err != nil {
		return answer{}, err
	}
	all, err := c.client.Workers(c.Context())
	return answer{body: api.RegisteredOf(names, all)}, err
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
	return c.changed(c.client.DeleteSchedule(c.Context(), c.PathValue("id"), client.By(c.user.Name)))
}

// changed answers that a change of the schedule was accepted.
func (c *call) changed(err error) (answer, error) {
	return answer{status: http.StatusAccepted, body: api.Accepted{Instance: c.PathValue("id"), Accepted: true}}, err
}
