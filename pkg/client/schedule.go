package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/builtin"
)

// NewScheduleStart returns the action that starts an orchestration with an input. The error is that of the encoding.
func NewScheduleStart[In, Out any](o pawl.Orchestration[In, Out], in In) (*ScheduleStart, error) {
	p, err := author.Input(o).Encode(in)
	if err != nil {
		return nil, fmt.Errorf("client: start of %s: %w", o.Name(), err)
	}
	return &ScheduleStart{Orchestration: o.Name(), Input: p.Data}, nil
}

// NewScheduleSend returns the action that sends an event to an instance. The error is that of the encoding.
func NewScheduleSend[T any](event pawl.Event[T], instance string, v T) (*ScheduleSend, error) {
	p, err := author.Value(event).Encode(v)
	if err != nil {
		return nil, fmt.Errorf("client: event %s: %w", event.Name(), err)
	}
	return &ScheduleSend{Instance: instance, Event: event.Name(), Input: p.Data}, nil
}

// ErrNoSchedule is returned if no schedule has the id, or if it has ended.
var ErrNoSchedule = errors.New("client: no such schedule")

// CreateSchedule creates a schedule, or replaces the configuration of the schedule with this id; its past actions and running instances
// are kept. A schedule is an instance, so its id must differ from those of other instances. Like all methods that change a schedule,
// CreateSchedule returns when the change is in effect or, after Options.OwnerTimeout, when the stream has stored it.
//
// Errors: those of an invalid configuration; ErrRefused if the id belongs to another instance, or to a schedule that has ended and was
// not deleted; those of Start.
func (c schedules) CreateSchedule(ctx context.Context, id string, s Schedule, opts ...StartOption) error {
	config, err := builtin.Convert[builtin.Schedule](s)
	if err = cmp.Or(err, config.Check()); err != nil {
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
	_, err = SendOrStart(ctx, c.client, builtin.Schedules, id, builtin.State{Schedule: config}, builtin.Commands, builtin.Command{Do: "configure", Schedule: &config}, opts...)
	if err != nil {
		return err
	}
	c.inEffect(ctx, id, d)
	return nil
}

// DescribeSchedule returns the state of a schedule, which may have ended. Errors: ErrNoSchedule, and those of CustomStatus.
func (c schedules) DescribeSchedule(ctx context.Context, id string) (ScheduleState, error) {
	d, err := c.client.Describe(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return ScheduleState{}, err
	}
	if err != nil || d.Orchestration != builtin.Schedules.Name() {
		return ScheduleState{}, fmt.Errorf("%w: %s", ErrNoSchedule, id)
	}
	at, err := CustomStatus(ctx, c.client, scheduleStatus, id)
	return at.Value, err
}

// PauseSchedule pauses a schedule: the times that pass have no effect, and are not caught up. The note is recorded, cut at 1 KiB. Errors
// of this and of the following methods: ErrNoSchedule, and those of Send.
func (c schedules) PauseSchedule(ctx context.Context, id, note string, opts ...Option) error {
	return c.command(ctx, id, builtin.Command{Do: "pause", Note: note}, opts)
}

// ResumeSchedule resumes a paused schedule. The note is recorded, cut at 1 KiB.
func (c schedules) ResumeSchedule(ctx context.Context, id, note string, opts ...Option) error {
	return c.command(ctx, id, builtin.Command{Do: "resume", Note: note}, opts)
}

// TriggerSchedule runs the action of a schedule now, even if it is paused, subject to Overlap.
func (c schedules) TriggerSchedule(ctx context.Context, id string, opts ...Option) error {
	return c.command(ctx, id, builtin.Command{Do: "trigger"}, opts)
}

// BackfillSchedule runs the action of a schedule for its times after from, up to and including to: one after the other, or concurrently
// with OverlapAllowAll. At most 1,000 times are run; a time whose instance exists is skipped.
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

// Schedules iterates over the schedules that have not ended, in the order and with the errors of List. DescribeSchedule returns the state
// of each.
func (c schedules) Schedules(ctx context.Context) iter.Seq2[Summary, error] {
	return c.client.List(ctx, ListOptions{Status: Running, Where: fmt.Sprintf("orchestration = %q", builtin.Schedules.Name())})
}

// command sends a command to an existing schedule. For an unknown id, the event would be kept for a later instance.
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

// inEffect waits, for at most Options.OwnerTimeout, until the schedule has a later state than the one described by d.
func (c schedules) inEffect(ctx context.Context, id string, d Description) {
	ctx, stop := context.WithTimeout(ctx, c.client.opts.OwnerTimeout)
	defer stop()
	var seen uint64
	if d.CustomStatus != nil {
		seen = d.CustomStatus.Version
	}
	_, _ = NextStatus(ctx, c.client, scheduleStatus, id, seen) // after an error, the stored command takes effect later
}
