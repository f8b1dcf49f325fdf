package pawl

import (
	"time"

	"github.com/pawlrun/pawl/internal/replay"
)

// ActivityOption is an option of NewActivity: Queue, Group, or a LimitOption.
type ActivityOption interface {
	applyActivity(*activitySettings)
}

type activitySettings struct {
	queue  string
	limits limitSettings
}

type queueOption string

func (q queueOption) applyActivity(s *activitySettings) { s.queue = string(q) }

// Queue puts the activity on a named task queue, together with others. Without it an
// activity has a queue of its own, under its own name.
func Queue(name string) ActivityOption { return queueOption(name) }

// OrchestrationOption is an option of NewOrchestration: Group, or a LimitOption.
type OrchestrationOption interface {
	applyOrchestration(*limitSettings)
}

// CallOption is an option of Activity.Call and Activity.Start: Retry, KeepSlot, AttemptTimeout, Within.
type CallOption interface {
	applyCall(*replay.Call)
}

// Retry is a CallOption: a failed attempt is followed by another, after a pause.
// Each attempt is a schedule of its own in history; all have one idempotency key.
// Without this option there is one attempt. (A worker that dies is no failed attempt:
// its activity is given to another worker by itself.)
//
// A failure that is Permanent, or one of Unless, is final; so is one that the limits of the
// action have made, unless Limited says otherwise. The call's error is the last attempt's.
type Retry struct {
	Attempts int           // all of them, the first included; 0: 5
	Initial  time.Duration // pause after the first failure; 0: one second
	Factor   float64       // each further pause is this much longer; below 1: 2
	Max      time.Duration // no pause is longer; 0: one minute
	Unless   []*Error      // failures that no further attempt would mend
	Limited  bool          // try again after ErrQueueFull, ErrQueueTimeout, ErrQueueCleared and ErrLimited, too
}

func (r Retry) applyCall(c *replay.Call) {
	c.Retry = replay.Retry{Attempts: r.Attempts, Initial: r.Initial, Factor: r.Factor, Max: r.Max, Limited: r.Limited}
	if r.Attempts == 0 {
		c.Retry.Attempts = 5
	}
	if r.Initial <= 0 {
		c.Retry.Initial = time.Second
	}
	if r.Factor < 1 {
		c.Retry.Factor = 2
	}
	if r.Max <= 0 {
		c.Retry.Max = time.Minute
	}
	for _, e := range r.Unless {
		c.Retry.Unless = append(c.Retry.Unless, e.code)
	}
}

type attemptTimeout time.Duration

func (d attemptTimeout) applyCall(c *replay.Call) { c.AttemptTimeout = time.Duration(d) }

// AttemptTimeout is a CallOption: an attempt that has no result after d, counted from
// its schedule, or, if it had to wait because the activity is limited, from when it was let in, is cancelled and has
// failed with ErrTimeout; Retry may try again. Zero or less: no limit, the default.
func AttemptTimeout(d time.Duration) CallOption { return attemptTimeout(d) }

type keepSlot struct{}

func (keepSlot) applyCall(c *replay.Call) { c.KeepSlot = true }

// KeepSlot is a CallOption: where the activity is limited, the call keeps its slot from one attempt of its Retry to the next,
// through the pause between, and does not queue anew. Others wait for that long.
func KeepSlot() CallOption { return keepSlot{} }

// Within is a CallOption and a ChildOption: a call that has no result after that time, all
// attempts, pauses and waiting included, is cancelled and has failed with ErrTimeout. Zero or less:
// no limit, the default.
type Within time.Duration

func (d Within) applyCall(c *replay.Call) { c.Within = time.Duration(d) }

func (d Within) applyChild(s *childSettings) { d.applyCall(&s.call) }
