package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/schedule"
	"github.com/pawlrun/pawl/internal/text"
)

// Schedule configures a schedule: its times (Cron, Calendars, Except, Zone, Spring, Fall, Jitter, From, Until), one action (Start, Run or
// Send, see NewScheduleStart, NewJob and NewScheduleSend), and what it does when it cannot (Overlap, CatchUp, CatchUpMax, Remaining, PauseOnFailure). docs/guide/schedules.md has the values
// and defaults. Next returns its times.
type Schedule = builtin.Schedule

// Times are the times of a schedule: those of any cron line and any calendar, but those of Except, in a time zone.
type Times = schedule.Times

// Calendar is a set of civil times, by fields in the manner of cron; every field must match.
type Calendar = schedule.Calendar

// ScheduleStart is the action of a schedule that starts an instance, with the id <schedule>@<time>.
type ScheduleStart = builtin.Start

// Duration is a duration of a Schedule, as text in JSON: client.Duration(6 * time.Hour).
type Duration = text.Duration

// ScheduleSend is the action of a schedule that sends an event.
type ScheduleSend = builtin.Send

// NewScheduleStart makes the action that starts an orchestration with an input.
func NewScheduleStart[In, Out any](o pawl.Orchestration[In, Out], in In) (*ScheduleStart, error) {
	p, err := author.Input(o).Encode(in)
	if err != nil {
		return nil, fmt.Errorf("client: start of %s: %w", o.Name(), err)
	}
	return &ScheduleStart{Orchestration: o.Name(), Input: p.Data}, nil
}

// NewScheduleSend makes the action that sends an event to an instance.
func NewScheduleSend[T any](event pawl.Event[T], instance string, v T) (*ScheduleSend, error) {
	p, err := author.Value(event).Encode(v)
	if err != nil {
		return nil, fmt.Errorf("client: event %s: %w", event.Name(), err)
	}
	return &ScheduleSend{Instance: instance, Event: event.Name(), Input: p.Data}, nil
}

// ScheduleState is a schedule with its next time, what runs, and what was done, skipped and missed. Times are UTC.
type ScheduleState = builtin.State

// Firing is an action that a schedule has done.
type Firing = builtin.Firing

// Overlap is what a time of a schedule does while the instance of an earlier time runs.
type Overlap = builtin.Overlap

// The policies of overlap.
const (
	OverlapSkip        = builtin.Skip        // nothing: the time is skipped; the default
	OverlapBufferOne   = builtin.BufferOne   // its action follows the end of the instance; further times are skipped
	OverlapBufferAll   = builtin.BufferAll   // the actions of up to 1,000 times follow one another
	OverlapCancelOther = builtin.CancelOther // the instance is cancelled, and the action does not wait for its end
	OverlapAllowAll    = builtin.AllowAll    // instances run at the same time

	OverlapTerminateOther = builtin.TerminateOther // as OverlapCancelOther, and the instance is ended without its code
)

// ErrNoSchedule is returned if the id is not that of a schedule that has not ended.
var ErrNoSchedule = errors.New("client: no such schedule")

// CreateSchedule creates a schedule, or replaces the configuration of the schedule of this id; what it has done, and what runs, is kept.
// A schedule is an instance: its id must differ from those of other instances. Like all that change a schedule, CreateSchedule returns when
// it is in effect, or, after Options.OwnerTimeout, when the stream has stored it.
//
// Errors: those of the configuration; ErrRefused if the id belongs to another instance, or to a schedule that has ended and was not
// deleted; those of Start.
func (c schedules) CreateSchedule(ctx context.Context, id string, s Schedule, opts ...StartOption) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("client: schedule %s: %w", id, err)
	}
	d, err := c.client.Describe(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case d.Orchestration != builtin.Schedules.Name():
		return fmt.Errorf("%w: %s is an instance of %s", ErrRefused, id, d.Orchestration)
	case d.Status.Ended():
		return fmt.Errorf("%w: schedule %s has ended; delete it first", ErrRefused, id)
	}
	_, err = SendOrStart(ctx, c.client, builtin.Schedules, id, ScheduleState{Schedule: s}, builtin.Commands, builtin.Command{Do: "configure", Schedule: &s}, opts...)
	if err != nil {
		return err
	}
	c.inEffect(ctx, id, d)
	return nil
}

// DescribeSchedule returns the state of a schedule, also of one that has ended. Errors: ErrNoSchedule, and those of CustomStatus.
func (c schedules) DescribeSchedule(ctx context.Context, id string) (ScheduleState, error) {
	d, err := c.client.Describe(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return ScheduleState{}, err
	}
	if err != nil || d.Orchestration != builtin.Schedules.Name() {
		return ScheduleState{}, fmt.Errorf("%w: %s", ErrNoSchedule, id)
	}
	at, err := CustomStatus(ctx, c.client, builtin.ScheduleStatus, id)
	return at.Value, err
}

// PauseSchedule pauses a schedule: its times pass without effect, and are not made up for. The note is kept, cut at 1 KiB. Errors of this
// and of the further operations: ErrNoSchedule, and those of Send.
func (c schedules) PauseSchedule(ctx context.Context, id, note string, opts ...Option) error {
	return c.command(ctx, id, builtin.Command{Do: "pause", Note: note}, opts)
}

// ResumeSchedule resumes a schedule that is paused.
func (c schedules) ResumeSchedule(ctx context.Context, id, note string, opts ...Option) error {
	return c.command(ctx, id, builtin.Command{Do: "resume", Note: note}, opts)
}

// TriggerSchedule has a schedule do its action now, also if it is paused, subject to Overlap.
func (c schedules) TriggerSchedule(ctx context.Context, id string, opts ...Option) error {
	return c.command(ctx, id, builtin.Command{Do: "trigger"}, opts)
}

// BackfillSchedule has a schedule do its action for its times after from, up to and including to: one after the other, or all at once with
// OverlapAllowAll. At most 1,000 times are; a time whose instance exists is skipped.
func (c schedules) BackfillSchedule(ctx context.Context, id string, from, to time.Time, opts ...Option) error {
	return c.command(ctx, id, builtin.Command{Do: "backfill", From: from.UTC(), To: to.UTC()}, opts)
}

// DeleteSchedule removes a schedule. Instances that it has started continue. Errors: ErrNoSchedule, and those of Purge.
func (c schedules) DeleteSchedule(ctx context.Context, id string, opts ...Option) error {
	d, err := c.client.Describe(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && d.Orchestration != builtin.Schedules.Name() {
		return fmt.Errorf("%w: %s", ErrNoSchedule, id)
	}
	if err != nil {
		return err
	}
	purge := []PurgeOption{Force(), Reason("schedule deleted")}
	for _, o := range opts {
		purge = append(purge, o)
	}
	return c.client.Purge(ctx, id, purge...)
}

// Schedules iterates over the schedules that have not ended, as List does. DescribeSchedule returns the state of each.
func (c schedules) Schedules(ctx context.Context) iter.Seq2[Summary, error] {
	return c.client.List(ctx, ListOptions{Status: Running, Where: fmt.Sprintf("orchestration = %q", builtin.Schedules.Name())})
}

// command sends a command to a schedule that exists: an event for an unknown id would be kept.
func (c schedules) command(ctx context.Context, id string, command builtin.Command, opts []Option) error {
	d, err := c.client.Describe(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && (d.Orchestration != builtin.Schedules.Name() || d.Status.Ended()):
		return fmt.Errorf("%w: %s", ErrNoSchedule, id)
	case err != nil:
		return err
	}
	if err := Send(ctx, c.client, builtin.Commands, id, command, opts...); err != nil {
		return err
	}
	c.inEffect(ctx, id, d)
	return nil
}

// inEffect waits, for Options.OwnerTimeout, until the schedule that was described has a later state.
func (c schedules) inEffect(ctx context.Context, id string, d Description) {
	ctx, stop := context.WithTimeout(ctx, c.client.opts.OwnerTimeout)
	defer stop()
	var seen uint64
	if d.CustomStatus != nil {
		seen = d.CustomStatus.Version
	}
	_, _ = NextStatus(ctx, c.client, builtin.ScheduleStatus, id, seen) // the command is stored, and takes effect later
}
