package builtin

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// roundsPerExecution bounds the history of one execution: a round takes about five events.
const roundsPerExecution = 100

// scheduler is an execution of pawl.schedule:
//
//	plan ──▶ act on what is due, by Overlap ──▶ publish the state ──▶ wait for the first of: the next time, a command, the end of the
//	 ▲                                                                instance that it may overlap                            │
//	 └────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//
// The plan is a side effect, so the next time is recorded in the history. While an instance runs whose end the next times would only be
// skipped or buffered for, there is no timer: these times are decided at its end. The instance of a time has the id <schedule>@<time>, so
// no time has two instances, whatever crashes, and whether the time is due or backfilled. Instances outlive the schedule. An execution
// ends only while no instance is running.
type scheduler struct {
	*State

	ctx     *pawl.Context
	x       *replay.Code
	id      string
	running *pawl.Future[pawl.None] // nil if no instance is running
	over    bool                    // the instance has ended, but its end is not yet processed
}

// scheduleProgram is the program of pawl.schedule. It needs the Code for terminate_other, because only a broadcast can carry a request of
// an operator.
func scheduleProgram(x *replay.Code) replay.Ending {
	return author.Program(Schedules.Do(func(ctx *pawl.Context, st State) (pawl.None, error) { return runSchedule(ctx, x, st) }))(x)
}

func runSchedule(ctx *pawl.Context, x *replay.Code, st State) (pawl.None, error) {
	if err := st.Schedule.Check(); err != nil {
		return pawl.None{}, err
	}
	s := &scheduler{State: &st, ctx: ctx, x: x, id: pawl.Instance(ctx).Instance}
	if st.Since.IsZero() {
		st.Since = pawl.Now(ctx)
	}
	command := Commands.Next(ctx)
	for round := 0; round < roundsPerExecution || s.running != nil || s.exhausted(); round++ {
		p, err := s.decide()
		if err != nil {
			return pawl.None{}, err
		}
		if err := s.act(p.Due); err != nil {
			return pawl.None{}, err
		}
		if err := s.ended(); err != nil {
			return pawl.None{}, err
		}
		if s.exhausted() || p.Next.IsZero() && s.running == nil && len(s.Buffered) == 0 && !s.Schedule.Paused {
			s.Next = time.Time{}
			return pawl.None{}, ScheduleStatus.Set(ctx, st)
		}
		if err := ScheduleStatus.Set(ctx, st); err != nil {
			return pawl.None{}, err
		}
		if command, err = s.wait(p, command); err != nil {
			return pawl.None{}, err
		}
	}
	return Schedules.ContinueAsNew(ctx, st)
}

// decide makes the plan.
func (s *scheduler) decide() (plan, error) {
	now := pawl.Now(s.ctx)
	if s.Schedule.Paused {
		s.Since, s.Next = now, time.Time{}
		return plan{}, nil
	}
	p, err := pawl.SideEffect(s.ctx, func() (plan, error) { return s.plan(s.id, now) })
	if err != nil {
		return p, err
	}
	s.Since, s.Next = p.Since, p.Next
	s.Missed += p.Missed + p.Excess
	s.skip(replay.MissedByOverlap, p.Skipped)
	replay.CountFirings(s.x, func(f *replay.Firings) {
		f.Missed[replay.MissedByAge] += p.Missed
		f.Missed[replay.MissedByNumber] += p.Excess
	})
	return p, nil
}

// skip counts times without an action.
func (s *scheduler) skip(why replay.MissCause, n uint64) {
	s.Skipped += n
	replay.CountFirings(s.x, func(f *replay.Firings) { f.Missed[why] += n })
}

// act performs the buffered actions and those that are due, whose delay is recorded.
func (s *scheduler) act(due []time.Time) error {
	if s.running == nil && len(s.Buffered) > 0 && !s.Schedule.Paused && !s.exhausted() {
		next := s.Buffered[0]
		s.Buffered = s.Buffered[1:]
		if err := s.fire(next); err != nil {
			return err
		}
	}
	for _, t := range due {
		if s.exhausted() {
			return nil
		}
		done := s.Done
		if err := s.fire(t); err != nil {
			return err
		}
		if s.Done > done {
			replay.CountFirings(s.x, func(f *replay.Firings) { f.Due = append(f.Due, s.due(s.id, t)) })
		}
	}
	return nil
}

func (s *scheduler) exhausted() bool { return s.Schedule.Remaining < 0 }

// fire performs the action of a time, or applies Overlap.
func (s *scheduler) fire(t time.Time) error {
	switch {
	case s.waits() && s.room() > 0:
		s.Buffered = append(s.Buffered, t)
		return nil
	case s.waits():
		s.skip(replay.MissedByOverlap, 1)
		return nil
	case s.running != nil && s.endsOther():
		if err := s.endOther(); err != nil {
			return err
		}
	}
	if s.Schedule.Remaining > 0 {
		if s.Schedule.Remaining--; s.Schedule.Remaining == 0 {
			s.Schedule.Remaining = -1 // this was the last action
		}
	}
	f := Firing{Time: t, At: pawl.Now(s.ctx)}
	s.Done++
	var err error
	if send := s.Schedule.Send; send != nil {
		err = pawl.NewEvent[json.RawMessage](send.Event).Send(s.ctx, send.Instance, send.Input)
	} else {
		f.Instance = s.id + "@" + t.Format("2006-01-02T15:04:05.999Z07:00")
		err = s.start(f.Instance)
	}
	s.Recent = append(s.Recent[max(0, len(s.Recent)-9):], f)
	return err
}

// endOther ends the instance of the previous time. The termination is sent before the cancellation, which withdraws the future.
func (s *scheduler) endOther() error {
	why := "the next time of schedule " + s.id
	if s.Schedule.Overlap == TerminateOther {
		for _, id := range s.x.Children() { // the only child; its effect identifies the start, because another instance may have the id
			b := &history.Broadcast{Verb: history.VerbTerminate.String(), Instances: []string{s.Running}, Text: why, Of: s.x.ChildEffect(id)}
			if err := s.x.Broadcast(b, nil); err != nil {
				return err
			}
		}
	}
	s.running.Cancel(why)
	s.running, s.Running = nil, ""
	s.Failed++
	return nil
}

// start starts the instance of a time.
func (s *scheduler) start(id string) error {
	if s.Schedule.Run != nil {
		return startIn(s, pawl.NewOrchestration[Job, pawl.None](JobName), id, *s.Schedule.Run, "")
	}
	a := s.Schedule.Start
	return startIn(s, pawl.NewOrchestration[json.RawMessage, pawl.None](a.Orchestration), id, a.Input, a.Version)
}

func startIn[In any](s *scheduler, o pawl.Orchestration[In, pawl.None], id string, in In, version string) error {
	if s.Schedule.Overlap == AllowAll {
		return o.StartDetached(s.ctx, id, in, pawl.Version(version))
	}
	s.running, s.Running = o.Start(s.ctx, in, pawl.ID(id), pawl.Abandon(), pawl.Version(version)), id
	return nil
}

// wait waits until the next time, a command or the end of the instance, and returns the wait for the next command.
func (s *scheduler) wait(p plan, command *pawl.Future[Command]) (*pawl.Future[Command], error) {
	first := []pawl.Selectable{command}
	if s.running != nil {
		first = append(first, s.running)
	}
	var timer *pawl.Future[pawl.None]
	if !p.At.IsZero() && !s.waits() && !s.Schedule.Paused {
		timer = pawl.After(s.ctx, max(p.At.Sub(pawl.Now(s.ctx)), time.Millisecond))
		first = append(first, timer)
	}
	won, err := pawl.Any(s.ctx, first...)
	if err != nil {
		return command, err
	}
	if timer != nil && won != pawl.Selectable(timer) {
		timer.Cancel("")
	}
	switch won {
	case pawl.Selectable(command):
		c, err := command.Get(s.ctx)
		if err == nil {
			err = s.obey(c)
		}
		if errors.Is(err, pawl.ErrUndecodable) { // the command was sent by hand
			err = nil
		}
		return Commands.Next(s.ctx), err
	case pawl.Selectable(s.running):
		s.over = true
	}
	return command, nil
}

// ended processes the end of the instance, after the times that were due until then, and performs the buffered actions.
func (s *scheduler) ended() error {
	if !s.over || s.running == nil {
		s.over = false
		return nil
	}
	_, err := s.running.Get(s.ctx)
	id := s.Running
	s.running, s.Running, s.over = nil, "", false
	switch {
	case pawl.Err(s.ctx) != nil:
		return pawl.Err(s.ctx)
	case errors.Is(err, pawl.ErrIDTaken): // the action was already performed
		s.skip(replay.MissedAsDone, 1)
	case err != nil:
		s.Failed++
		if s.Schedule.PauseOnFailure {
			s.Schedule.Paused, s.Schedule.Note = true, text.Shorten(id+" failed: "+err.Error(), maxNote)
			s.Next = time.Time{}
		}
	}
	return s.act(nil)
}

// obey carries out a command. An invalid command has no effect.
func (s *scheduler) obey(c Command) error {
	now := pawl.Now(s.ctx)
	switch c.Do {
	case "pause", "resume":
		if s.Schedule.Paused {
			s.Since = now
		}
		s.Schedule.Paused, s.Schedule.Note = c.Do == "pause", text.Shorten(c.Note, maxNote)
	case "trigger":
		return s.fire(now)
	case "backfill":
		times, err := pawl.SideEffect(s.ctx, func() ([]time.Time, error) { return s.Schedule.between(c.From, c.To, maxBuffered) })
		if err != nil {
			return err
		}
		for _, t := range times {
			if s.Schedule.Overlap == AllowAll || s.Schedule.Send != nil {
				err = cmp.Or(err, s.fire(t))
				continue
			}
			if len(s.Buffered) < maxBuffered {
				s.Buffered = append(s.Buffered, t)
			}
		}
		return err
	case "configure":
		if c.Schedule != nil && c.Schedule.Check() == nil {
			s.Schedule, s.Since = *c.Schedule, now
		}
	}
	return nil
}
