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

// Schedule configures a schedule: its times, its action at each of them, and what to do when an action is not possible. Exactly one of
// Start, Run and Send is required.
type Schedule struct {
	schedule.Times

	Start *Start `json:"start,omitempty"` // starts an instance
	Run   *Job   `json:"run,omitempty"`   // runs a job
	Send  *Send  `json:"send,omitempty"`  // sends an event; Overlap has no effect

	Overlap Overlap `json:"overlap,omitempty"` // what happens at a time while the instance of an earlier one is running; default skip

	// CatchUp is how old a time may be to be made up for after no orchestrator was running; the default is 1 h. If there are more than
	// CatchUpMax such times (default 100), only the latest are made up for.
	CatchUp    text.Duration `json:"catch_up,omitzero"`
	CatchUpMax int           `json:"catch_up_max,omitempty"`

	Remaining      int    `json:"remaining,omitempty"`        // number of actions after which the schedule ends; default: no bound
	PauseOnFailure bool   `json:"pause_on_failure,omitempty"` // pause when an instance fails; not with allow_all
	Paused         bool   `json:"paused,omitempty"`           // no action is performed at its times
	Note           string `json:"note,omitempty"`             // free text, such as why it is paused
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

// Overlap is the policy for a time at which the instance of an earlier time is still running.
type Overlap string

// The policies.
const (
	Skip        Overlap = "skip"         // the time is skipped
	BufferOne   Overlap = "buffer_one"   // its action runs after the end of the instance; further times are skipped
	BufferAll   Overlap = "buffer_all"   // the actions of up to 1,000 times run one after another
	CancelOther Overlap = "cancel_other" // the instance is cancelled, and the action does not wait for its end
	AllowAll    Overlap = "allow_all"    // instances run concurrently

	// TerminateOther is CancelOther without running the code of the instance: its owner ends it.
	TerminateOther Overlap = "terminate_other"
)

const (
	defaultCatchUp    = time.Hour
	defaultCatchUpMax = 100
	maxBuffered       = 1000    // maximum number of buffered times, including those of a backfill
	maxCounted        = 100_000 // maximum number of times without an action counted in one step
	maxNote           = 1 << 10 // maximum size of a note, in bytes
)

// Check returns an error if the configuration is invalid.
func (s *Schedule) Check() error {
	if _, err := schedule.Read(s.Times); err != nil {
		return err
	}
	actions := 0
	var wrong []error
	if s.Start != nil {
		actions++
		wrong = append(wrong, pawl.ValidateName(s.Start.Orchestration))
		if s.Start.Orchestration == Batches.Name() { // clients may create schedules, but only operators may start batches
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

// between returns up to n times after from, up to and including to. A zero time means no bound.
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
	Since    time.Time   `json:"since,omitzero"`     // all times up to this one are decided
	Next     time.Time   `json:"next,omitzero"`      // the next time; zero while the schedule is paused
	Running  string      `json:"running,omitempty"`  // running instance that the next time may overlap
	Buffered []time.Time `json:"buffered,omitempty"` // times whose actions are still to run
	Done     uint64      `json:"done"`               // number of actions performed
	Skipped  uint64      `json:"skipped"`            // number of times skipped by Overlap or because their instance already existed
	Missed   uint64      `json:"missed"`             // number of times that were too old after an outage, or exceeded CatchUpMax
	Failed   uint64      `json:"failed"`             // number of instances that failed or were cancelled
	Recent   []Firing    `json:"recent,omitempty"`   // the latest ten actions
}

// Firing is one action of a schedule.
type Firing struct {
	Time     time.Time `json:"time"`               // time of the schedule
	At       time.Time `json:"at"`                 // when the action was performed
	Instance string    `json:"instance,omitempty"` // instance that was started
}

// Command changes a schedule, as an event to its instance.
type Command struct {
	Do       string    `json:"do"`                 // pause, resume, trigger, backfill or configure
	Note     string    `json:"note,omitempty"`     // pause and resume: free text
	From     time.Time `json:"from,omitzero"`      // backfill: exclusive lower bound
	To       time.Time `json:"to,omitzero"`        // backfill: inclusive upper bound
	Schedule *Schedule `json:"schedule,omitempty"` // configure: the new configuration
}

// Handles of schedules.
var (
	Schedules      = pawl.NewOrchestration[State, pawl.None]("pawl.schedule")
	Commands       = pawl.NewEvent[Command]("pawl.schedule")
	ScheduleStatus = pawl.NewStatus[State]()
)

// plan lists what a schedule has to do. It is recorded rather than computed again on replay, because the time zone database may change in
// between.
type plan struct {
	Due     []time.Time `json:"due,omitempty"`
	Missed  uint64      `json:"missed,omitempty"` // number of times that were too old
	Excess  uint64      `json:"excess,omitempty"` // number of times missed because there were too many
	Skipped uint64      `json:"skipped,omitempty"`
	Since   time.Time   `json:"since"`
	Next    time.Time   `json:"next,omitzero"` // zero if there is none
	At      time.Time   `json:"at,omitzero"`   // when the action of Next is due, with jitter
}

// plan computes the plan for the schedule with the id.
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

// due returns a time with its jitter, Unix ms.
func (st *State) due(id string, t time.Time) int64 {
	if st.Schedule.Jitter > 0 {
		if times, err := schedule.Read(st.Schedule.Times); err == nil {
			t = t.Add(times.Delay(id, t))
		}
	}
	return t.UnixMilli()
}

// waits reports whether a running instance makes times have no effect, or a later one.
func (st *State) waits() bool {
	return st.Running != "" && !st.endsOther() && st.Schedule.Overlap != AllowAll
}

// endsOther reports whether the next time ends the running instance.
func (st *State) endsOther() bool {
	return st.Schedule.Overlap == CancelOther || st.Schedule.Overlap == TerminateOther
}

// room returns how many more times may be buffered.
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
