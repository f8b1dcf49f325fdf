package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/external"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type scheduleCmd struct {
	Create   scheduleCreateCmd   `cmd:"" help:"Create a schedule, or replace its configuration."`
	List     scheduleListCmd     `cmd:"" help:"List schedules."`
	Describe scheduleDescribeCmd `cmd:"" help:"Describe a schedule."`
	Pause    schedulePauseCmd    `cmd:"" help:"Pause a schedule. Its times pass without effect."`
	Resume   scheduleResumeCmd   `cmd:"" help:"Resume a schedule."`
	Trigger  scheduleTriggerCmd  `cmd:"" help:"Execute the action of a schedule now."`
	Backfill scheduleBackfillCmd `cmd:"" help:"Execute the action of a schedule for times in the past."`
	Next     scheduleNextCmd     `cmd:"" help:"Show the next times of a schedule."`
	Delete   scheduleDeleteCmd   `cmd:"" help:"Delete a schedule. Instances that it started continue."`
}

// timesFlags are the times of a schedule.
type timesFlags struct {
	Cron   []string      `sep:"none" placeholder:"LINE" help:"Cron line of five fields, or six with the second first; or @every 1h30m, @hourly, @daily, @weekly, @monthly, @yearly. Repeatable."`
	Zone   string        `placeholder:"ZONE" help:"Time zone, such as Europe/Zurich. Default: UTC."`
	Spring string        `enum:"shift,skip" default:"shift" help:"Effect on times that the clock skips in spring: ${enum}."`
	Fall   string        `enum:"first,last,both" default:"first" help:"Which occurrence of a time counts that the clock repeats in fall: ${enum}."`
	Jitter time.Duration `placeholder:"DURATION" help:"Maximum delay of each time. The delay of a time is always the same. Default: none."`
	Until  time.Time     `placeholder:"TIME" help:"End of the schedule, such as 2027-01-01T00:00:00Z. Default: none."`
}

func (f timesFlags) times() client.Times {
	return client.Times{Cron: f.Cron, Zone: f.Zone, Spring: f.Spring, Fall: f.Fall, Jitter: client.Duration(f.Jitter), Until: f.Until.UTC()}
}

type scheduleCreateCmd struct {
	ID   string `arg:"" help:"Id of the schedule."`
	File string `type:"existingfile" placeholder:"FILE" help:"YAML file with the configuration, instead of the flags. It may contain calendars and exceptions."`
	timesFlags
	Start  string `placeholder:"NAME" help:"Action: start this orchestration."`
	RunJob string `name:"run" placeholder:"NAME" help:"Action: run this activity as a job."`
	Send   string `placeholder:"INSTANCE/EVENT" help:"Action: send this event."`
	jobFlags

	Overlap        string        `enum:"skip,buffer_one,buffer_all,cancel_other,terminate_other,allow_all" default:"skip" help:"Effect of a time while the instance of an earlier time runs: ${enum}."`
	CatchUp        time.Duration `default:"1h" help:"Maximum age of missed times whose actions are executed after an outage."`
	Remaining      int           `placeholder:"N" help:"End after this number of actions. Default: no limit."`
	PauseOnFailure bool          `help:"Pause when an instance fails."`
	Paused         bool          `help:"Create the schedule paused."`
	Note           string        `placeholder:"TEXT" help:"Note that is shown with the schedule."`
	JSON           bool          `name:"json" help:"Write JSON."`
	connection     `group:"Connection"`
}

// Run creates or changes the schedule.
func (c *scheduleCreateCmd) Run(ctx context.Context, s streams) error {
	config, err := c.config()
	if err == nil {
		err = errors.Join(config.Check(), pawl.ValidateID(c.ID))
	}
	if err != nil {
		return settings.Usage(err)
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	if err := cl.CreateSchedule(ctx, c.ID, config); err != nil {
		return err
	}
	return accepted(s, c.JSON, c.ID, "created", "")
}

func (c *scheduleCreateCmd) config() (config client.Schedule, err error) {
	if c.File != "" {
		err = external.ReadYAML(c.File, &config)
		return config, err
	}
	config = client.Schedule{
		Times: c.times(), Overlap: client.Overlap(c.Overlap), CatchUp: client.Duration(c.CatchUp), Remaining: c.Remaining,
		PauseOnFailure: c.PauseOnFailure, Paused: c.Paused, Note: c.Note,
	}
	job, err := c.job(c.RunJob)
	if err != nil {
		return config, err
	}
	if c.Start != "" {
		config.Start = &client.ScheduleStart{Orchestration: c.Start, Input: job.Input}
	}
	if c.RunJob != "" {
		config.Run = &job
	}
	if c.Send != "" {
		instance, event, _ := strings.Cut(c.Send, "/")
		config.Send = &client.ScheduleSend{Instance: instance, Event: event, Input: job.Input}
	}
	return config, nil
}

// oneSchedule contains the arguments of a command on one schedule.
type oneSchedule struct {
	ID         string `arg:"" help:"Id of the schedule."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Validate checks the id.
func (c *oneSchedule) Validate() error { return pawl.ValidateID(c.ID) }

// accepted reports that a change was accepted, or returns its error.
func (c *oneSchedule) accepted(s streams, what string, err error) error {
	if err != nil {
		return err
	}
	return accepted(s, c.JSON, c.ID, what, "")
}

type schedulePauseCmd struct {
	oneSchedule
	Note string `placeholder:"TEXT" help:"Reason, shown with the schedule."`
}

// Run pauses the schedule.
func (c *schedulePauseCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	return c.accepted(s, "paused", cl.PauseSchedule(ctx, c.ID, c.Note))
}

type scheduleResumeCmd struct {
	oneSchedule
	Note string `placeholder:"TEXT" help:"Reason, shown with the schedule."`
}

// Run resumes the schedule.
func (c *scheduleResumeCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	return c.accepted(s, "resumed", cl.ResumeSchedule(ctx, c.ID, c.Note))
}

type scheduleTriggerCmd struct{ oneSchedule }

// Run triggers the schedule.
func (c *scheduleTriggerCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	return c.accepted(s, "triggered", cl.TriggerSchedule(ctx, c.ID))
}

type scheduleBackfillCmd struct {
	oneSchedule
	From time.Time `required:"" placeholder:"TIME" help:"Beginning of the range, exclusive, such as 2026-11-01T00:00:00Z."`
	To   time.Time `required:"" placeholder:"TIME" help:"End of the range, inclusive."`
}

// Run requests the actions for the times of the range.
func (c *scheduleBackfillCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if !c.From.Before(c.To) {
		return settings.Usage(errors.New("--from must be before --to"))
	}
	return c.accepted(s, "backfill accepted", cl.BackfillSchedule(ctx, c.ID, c.From, c.To))
}

type scheduleDeleteCmd struct{ oneSchedule }

// Run deletes the schedule.
func (c *scheduleDeleteCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	return c.accepted(s, "deleted", cl.DeleteSchedule(ctx, c.ID))
}

type scheduleDescribeCmd struct{ oneSchedule }

// Run describes the schedule.
func (c *scheduleDescribeCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	st, err := cl.DescribeSchedule(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, api.Schedule{ID: c.ID, ScheduleState: st})
	}
	f := &term.Fields{}
	f.Add("Schedule", c.ID)
	f.Add("Times", diagnose.ScheduleTimes(st.Schedule.Times))
	f.Add("Action", diagnose.ScheduleAction(st.Schedule))
	f.Add("State", stateText(st))
	f.AddText("Note", st.Schedule.Note)
	if n := len(st.Buffered); n > 0 {
		f.Add("Buffered", diagnose.Counted(n, "time")+" whose actions are pending")
	}
	f.Add("Actions", fmt.Sprintf("%d done, %d times skipped, %d missed, %d failed", st.Done, st.Skipped, st.Missed, st.Failed))
	for _, r := range st.Recent {
		f.Add("", fmt.Sprintf("%s UTC  %s late  %s", formatSecond(r.Time), r.At.Sub(r.Time), r.Instance))
	}
	return f.Write(s.out)
}

func stateText(st client.ScheduleState) string {
	switch {
	case st.Schedule.Paused:
		return "paused"
	case st.Running != "":
		return "runs " + st.Running
	case !st.Next.IsZero():
		return "next " + formatSecond(st.Next) + " UTC"
	default:
		return "ended"
	}
}

type scheduleListCmd struct {
	JSON       bool `name:"json" help:"Write one JSON object per schedule."`
	connection `group:"Connection"`
}

// Run lists the schedules.
func (c *scheduleListCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	t := &term.Table{Header: []string{"SCHEDULE", "TIMES", "ACTION", "STATE", "DONE", "MISSED", "FAILED"}, Right: []int{4, 5, 6}}
	for row, err := range cl.Schedules(ctx) {
		if err != nil {
			return err
		}
		st, err := cl.DescribeSchedule(ctx, row.Instance)
		if errors.Is(err, client.ErrNoSchedule) || errors.Is(err, client.ErrNoStatus) { // just deleted, or just created
			continue
		}
		if err != nil {
			return err
		}
		if !c.JSON {
			t.Add(row.Instance, diagnose.ScheduleTimes(st.Schedule.Times), diagnose.ScheduleAction(st.Schedule), stateText(st), st.Done, st.Missed, st.Failed)
			continue
		}
		if err := writeJSON(s.out, api.Schedule{ID: row.Instance, ScheduleState: st}); err != nil {
			return err
		}
	}
	if c.JSON {
		return nil
	}
	return t.WriteOr(s.out, "There are no schedules.")
}

type scheduleNextCmd struct {
	ID    string `arg:"" optional:"" help:"Id of the schedule. Without it, the flags determine the times."`
	Count int    `default:"10" help:"Number of times."`
	timesFlags
	JSON       bool `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Run shows the next times.
func (c *scheduleNextCmd) Run(ctx context.Context, s streams) error {
	config := client.Schedule{Times: c.times()}
	if c.ID != "" {
		cl, done, err := c.client(ctx, s)
		if err != nil {
			return err
		}
		defer done()
		st, err := cl.DescribeSchedule(ctx, c.ID)
		if err != nil {
			return err
		}
		config = st.Schedule
	}
	all, err := config.Next(time.Now(), c.Count)
	if err != nil {
		return settings.Usage(err)
	}
	zone, err := time.LoadLocation(config.Zone)
	if err != nil {
		return settings.Usage(err)
	}
	for _, t := range all {
		if c.JSON {
			err = writeJSON(s.out, map[string]time.Time{"time": t})
		} else {
			_, err = fmt.Fprintln(s.out, t.In(zone).Format("Mon 2006-01-02 15:04:05 MST"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
