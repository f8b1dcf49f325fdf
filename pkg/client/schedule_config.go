package client

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/text"
)

// Schedule configures a schedule: its times, its action at each of them, and what to do when an action is not possible. Exactly one of
// Start, Run and Send is required. docs/guide/schedules.md describes the fields. In JSON they have the names of the HTTP API.
type Schedule struct {
	Times

	Start *ScheduleStart `json:"start,omitempty"` // starts an instance: see NewScheduleStart
	Run   *Job           `json:"run,omitempty"`   // runs a job: see NewJob
	Send  *ScheduleSend  `json:"send,omitempty"`  // sends an event: see NewScheduleSend; Overlap has no effect

	Overlap Overlap `json:"overlap,omitempty"` // what happens at a time while the instance of an earlier one is running; default: OverlapSkip

	// CatchUp is how old a time may be to be made up for after no orchestrator was running; default: 1 h. If there are more than CatchUpMax
	// such times, only the latest are made up for; default: 100, at most 1,000.
	CatchUp    Duration `json:"catch_up,omitzero"`
	CatchUpMax int      `json:"catch_up_max,omitempty"`

	Remaining      int    `json:"remaining,omitempty"`        // number of actions after which the schedule ends; default: no bound
	PauseOnFailure bool   `json:"pause_on_failure,omitempty"` // pause when an instance fails; not with OverlapAllowAll or Send
	Paused         bool   `json:"paused,omitempty"`           // no action is performed at its times
	Note           string `json:"note,omitempty"`             // free text, such as why it is paused
}

// Check returns an error that names the fields that are invalid.
func (s *Schedule) Check() error {
	config, err := builtin.Convert[builtin.Schedule](s)
	return cmp.Or(err, config.Check())
}

// Next returns up to n times after from, in UTC and without jitter: fewer if the schedule has no more. The error is that of invalid times.
func (s *Schedule) Next(from time.Time, n int) ([]time.Time, error) {
	config, err := builtin.Convert[builtin.Schedule](s)
	if err != nil {
		return nil, err
	}
	return config.Next(from, n)
}

// Times are the times of a schedule: those of all cron lines and calendars, except those of Except, in a time zone. At least one line or
// calendar is required.
type Times struct {
	// Cron contains lines of five fields (minute hour day month weekday) or of six (second first); or @every with a duration of at least
	// one second; or @hourly, @daily, @weekly, @monthly or @yearly. If a line restricts both the day and the weekday, one of them
	// suffices, as in cron.
	Cron      []string   `json:"cron,omitempty"`
	Calendars []Calendar `json:"calendars,omitempty"` // in each calendar, all fields must match
	Except    []Calendar `json:"except,omitempty"`    // times that any of these contains are excluded
	Zone      string     `json:"zone,omitempty"`      // IANA name, such as Europe/Zurich; default: UTC
	Spring    string     `json:"spring,omitempty"`    // shift or skip: of times that a change of the clocks omits; default: shift
	Fall      string     `json:"fall,omitempty"`      // first, last or both: of times that occur twice; default: first
	Jitter    Duration   `json:"jitter,omitzero"`     // each time is delayed by a fixed part of this; default: none
	From      time.Time  `json:"from,omitzero"`       // no time is before this; default: no bound
	Until     time.Time  `json:"until,omitzero"`      // no time is after this; default: no bound
}

// Calendar is a set of civil times: those that match every field. A field is a list of values, ranges and steps, as in cron: "0,30",
// "9-17", "*/15", "mon-fri".
type Calendar struct {
	Second  string `json:"second,omitempty"`  // 0 to 59; default "0", in Except "*"
	Minute  string `json:"minute,omitempty"`  // 0 to 59; default "0", in Except "*"
	Hour    string `json:"hour,omitempty"`    // 0 to 23; default "0", in Except "*"
	Day     string `json:"day,omitempty"`     // day of the month, 1 to 31; L is the last day, L-2 the third to last; default "*"
	Month   string `json:"month,omitempty"`   // 1 to 12, or jan to dec; default "*"
	Weekday string `json:"weekday,omitempty"` // 0 to 7, or sun to sat; fri#2 is the second Friday of the month, friL the last; default "*"
	Year    string `json:"year,omitempty"`    // 1970 to 2199; default "*"
}

// ScheduleStart is the action of a schedule that starts an instance with the id <schedule>@<time>.
type ScheduleStart struct {
	Orchestration string          `json:"orchestration"`     // required
	Version       string          `json:"version,omitempty"` // default: the newest
	Input         json.RawMessage `json:"input,omitempty"`   // in JSON; default: null
}

// ScheduleSend is the action of a schedule that sends an event.
type ScheduleSend struct {
	Instance string          `json:"instance"`        // id of the receiver; required
	Event    string          `json:"event"`           // name of the event; required
	Input    json.RawMessage `json:"input,omitempty"` // payload in JSON; default: null
}

// Overlap selects what a schedule does at a time at which the instance of an earlier time still runs.
type Overlap string

// The policies of overlap.
const (
	OverlapSkip        Overlap = "skip"         // the time is skipped; the default
	OverlapBufferOne   Overlap = "buffer_one"   // the action follows the end of the instance; further times are skipped
	OverlapBufferAll   Overlap = "buffer_all"   // the actions of up to 1,000 times follow one after the other
	OverlapCancelOther Overlap = "cancel_other" // the instance is cancelled, and the action does not wait for its end
	OverlapAllowAll    Overlap = "allow_all"    // instances run concurrently

	OverlapTerminateOther Overlap = "terminate_other" // the instance is ended without running its code, and the action does not wait for it
)

// Duration is a time.Duration that is text in JSON and YAML, such as "1h30m": client.Duration(6 * time.Hour). Empty text is zero.
type Duration time.Duration

// Std returns the duration as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the text of time.Duration.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the text.
func (d Duration) MarshalText() ([]byte, error) { return text.Duration(d).MarshalText() }

// UnmarshalText parses the text. A negative duration is an error.
func (d *Duration) UnmarshalText(b []byte) error { return (*text.Duration)(d).UnmarshalText(b) }

// ScheduleState is the state of a schedule: its configuration, its next time, the instance that is running, and the numbers of times and
// actions. Times are UTC.
type ScheduleState struct {
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

// Firing is an action that a schedule has performed.
type Firing struct {
	Time     time.Time `json:"time"`               // time of the schedule
	At       time.Time `json:"at"`                 // when the action was performed
	Instance string    `json:"instance,omitempty"` // instance that was started; empty for an event
}

var scheduleStatus = pawl.NewStatus[ScheduleState]()
