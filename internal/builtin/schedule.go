package builtin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/schedule"
	"github.com/pawlrun/pawl/internal/text"
)

// Schedule configures a schedule: its times, what it does at each of them, and what it does when it cannot. One of Start, Run and Send is
// required.
type Schedule struct {
	schedule.Times

	Start *Start `json:"start,omitempty"` // starts an instance
	Run   *Job   `json:"run,omitempty"`   // runs a job
	Send  *Send  `json:"send,omitempty"`  // sends an event; Overlap has no effect

	Overlap Overlap `json:"overlap,omitempty"` // what a time does while the instance of an earlier one runs; default skip

	// CatchUp is the age up to which times are made up for that passed while no orchestrator ran; default 1 h. Of more than
	// CatchUpMax (default 100) only the latest are.
	CatchUp    text.Duration `json:"catch_up,omitzero"`
	CatchUpMax int           `json:"catch_up_max,omitempty"`

	Remaining      int    `json:"remaining,omitempty"`        // the schedule ends after so many actions; default: no bound
	PauseOnFailure bool   `json:"pause_on_failure,omitempty"` // pause when an instance fails; not with allow_all
	Paused         bool   `json:"paused,omitempty"`           // it does nothing at its times
	Note           string `json:"note,omitempty"`             // why it is paused, for instance
}

// Start is the action that starts an instance, with the id <schedule>@<time>.
type Start struct {
	Orchestration string          `json:"orchestration"`
	Version       string          `json:"version,omitempty"` // default: the newest
	Input         json.RawMessage `json:"input,omitempty"`   // default: null
}

// Send is the action that sends an event.
type Send struct {
	Instance string          `json:"instance"`
	Event    string          `json:"event"`
	Input    json.RawMessage `json:"input,omitempty"` // default: null
}

// Overlap is what a time does while the instance of an earlier time runs.
type Overlap string

// The policies.
const (
	Skip        Overlap = "skip"         // nothing: the time is skipped
	BufferOne   Overlap = "buffer_one"   // its action follows the end of the instance; further times are skipped
	BufferAll   Overlap = "buffer_all"   // the actions of up to 1,000 times follow one another
	CancelOther Overlap = "cancel_other" // the instance is cancelled, and the action does not wait for its end
	AllowAll    Overlap = "allow_all"    // instances run at the same time

	// TerminateOther is CancelOther without the code of the instance: it is ended by its owner.
	TerminateOther Overlap = "terminate_other"
)

const (
	defaultCatchUp    = time.Hour
	defaultCatchUpMax = 100
	maxBuffered       = 1000    // times, also of a backfill
	maxCounted        = 100_000 // times without an action that are counted at once
	maxNote           = 1 << 10 // bytes
)

// Check returns what is wrong with the configuration.
func (s *Schedule) Check() error {
	if _, err := schedule.Read(s.Times); err != nil {
		return err
	}
	actions := 0
	var wrong []error
	if s.Start != nil {
		actions++
		wrong = append(wrong, pawl.ValidateName(s.Start.Orchestration))
		if s.Start.Orchestration == Batches.Name() { // a client may create schedules, and only an operator batches
			wrong = append(wrong, fmt.Errorf("schedule: %s cannot be started by a schedule", Batches.Name()))
		}
	}
	if s.Run != nil {
		actions++
		wrong = append(wrong, s.Run.Check())
	}
	if s.Send != nil {
		actions++
		wrong = append(wrong, pawl.ValidateName(s.Send.Event), pawl.ValidateID(s.Send.Instance))
	}
	switch {
	case actions != 1:
		wrong = append(wrong, errors.New("schedule: one of start, run and send is required"))
	case s.Overlap != "" && !slices.Contains([]Overlap{Skip, BufferOne, BufferAll, CancelOther, TerminateOther, AllowAll}, s.Overlap):
		wrong = append(wrong, fmt.Errorf("schedule: overlap %q: must be skip, buffer_one, buffer_all, cancel_other, terminate_other or allow_all", s.Overlap))
	case s.PauseOnFailure && (s.Overlap == AllowAll || s.Send != nil):
		wrong = append(wrong, errors.New("schedule: pause_on_failure is not for allow_all and not for events: their ends are not awaited"))
	case s.CatchUpMax < 0 || s.CatchUpMax > maxBuffered || s.Remaining < 0:
		wrong = append(wrong, fmt.Errorf("schedule: catch_up_max must be 0 to %d and remaining not negative (got %d, %d)", maxBuffered, s.CatchUpMax, s.Remaining))
	}
	return errors.Join(wrong...)
}

// Next returns up to n times after from, without jitter.
func (s *Schedule) Next(from time.Time, n int) ([]time.Time, error) {
	return s.between(from, time.Time{}, n)
}

// between returns up to n times after from, up to and including to; zero: there is no such bound.
func (s *Schedule) between(from, to time.Time, n int) (all []time.Time, _ error) {
	times, err := schedule.Read(s.Times)
	for err == nil && len(all) < n {
		next, ok := times.Next(from)
		if !ok || !to.IsZero() && next.After(to) {
			break
		}
		all, from = append(all, next), next
	}
	return all, err
}

// State is the state of a schedule: the custom status of its instance, and the input of its next execution. Times are UTC.
type State struct {
	Schedule Schedule    `json:"schedule"`
	Since    time.Time   `json:"since,omitzero"`     // all times up to it are decided
	Next     time.Time   `json:"next,omitzero"`      // the next time; zero while it is paused
	Running  string      `json:"running,omitempty"`  // instance that the next time may overlap
	Buffered []time.Time `json:"buffered,omitempty"` // times whose actions follow
	Done     uint64      `json:"done"`               // actions
	Skipped  uint64      `json:"skipped"`            // times that were skipped by Overlap, or had an instance already
	Missed   uint64      `json:"missed"`             // times that were too old after an outage, or too many
	Failed   uint64      `json:"failed"`             // instances that failed or were cancelled
	Recent   []Firing    `json:"recent,omitempty"`   // the latest ten actions
}

// Firing is an action of a schedule.
type Firing struct {
	Time     time.Time `json:"time"`               // of the schedule
	At       time.Time `json:"at"`                 // when it was done
	Instance string    `json:"instance,omitempty"` // that was started
}

// Command changes a schedule, as an event to its instance.
type Command struct {
	Do       string    `json:"do"`                 // pause, resume, trigger, backfill or configure
	Note     string    `json:"note,omitempty"`     // of pause and resume
	From     time.Time `json:"from,omitzero"`      // of backfill, exclusive
	To       time.Time `json:"to,omitzero"`        // of backfill, inclusive
	Schedule *Schedule `json:"schedule,omitempty"` // of configure
}

// Handles of schedules.
var (
	Schedules      = pawl.NewOrchestration[State, pawl.None]("pawl.schedule")
	Commands       = pawl.NewEvent[Command]("pawl.schedule")
	ScheduleStatus = pawl.NewStatus[State]()
)

// plan is what a schedule has to do. It is recorded and not computed again by a replay: the rules of a zone may change in between.
type plan struct {
	Due     []time.Time `json:"due,omitempty"`
	Missed  uint64      `json:"missed,omitempty"` // too old
	Excess  uint64      `json:"excess,omitempty"` // missed: too many
	Skipped uint64      `json:"skipped,omitempty"`
	Since   time.Time   `json:"since"`
	Next    time.Time   `json:"next,omitzero"` // zero: there is none
	At      time.Time   `json:"at,omitzero"`   // of the action of Next, with its delay
}

// plan computes the plan for an instance of the id.
func (st *State) plan(id string, now time.Time) (plan, error) {
	times, err := schedule.Read(st.Schedule.Times)
	if err != nil {
		return plan{}, err
	}
	oldest := now.Add(-cmp.Or(st.Schedule.CatchUp.Std(), defaultCatchUp))
	most := cmp.Or(st.Schedule.CatchUpMax, defaultCatchUpMax)
	var p plan
	for p.Since = st.Since; ; {
		next, ok := times.Next(p.Since)
		if !ok {
			return p, nil
		}
		if at := next.Add(times.Delay(id, next)); at.After(now) {
			p.Next, p.At = next, at
			return p, nil
		}
		p.Since = next
		switch {
		case st.waits():
			if len(p.Due) < st.room() {
				p.Due = append(p.Due, next)
			} else if p.Skipped++; p.Skipped >= maxCounted {
				p.Since = now
			}
		case next.Before(oldest):
			if p.Missed++; p.Missed >= maxCounted {
				p.Since = oldest.Add(-1)
			}
		default:
			if p.Due = append(p.Due, next); len(p.Due) > most {
				p.Due = p.Due[1:]
				p.Excess++
			}
		}
	}
}

// due is a time with its jitter, Unix ms.
func (st *State) due(id string, t time.Time) int64 {
	if st.Schedule.Jitter > 0 {
		if times, err := schedule.Read(st.Schedule.Times); err == nil {
			t = t.Add(times.Delay(id, t))
		}
	}
	return t.UnixMilli()
}

// waits reports whether times have no effect, or a later one, because an instance runs.
func (st *State) waits() bool {
	return st.Running != "" && !st.endsOther() && st.Schedule.Overlap != AllowAll
}

// endsOther reports whether the next time ends the instance that runs.
func (st *State) endsOther() bool {
	return st.Schedule.Overlap == CancelOther || st.Schedule.Overlap == TerminateOther
}

// room is the number of further times that may be buffered.
func (st *State) room() int {
	switch st.Schedule.Overlap {
	case BufferOne:
		return max(0, 1-len(st.Buffered))
	case BufferAll:
		return maxBuffered - len(st.Buffered)
	default:
		return 0
	}
}
