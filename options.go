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

// Queue assigns the activity to a named task queue, which several activities may share. Without it an activity has a queue of its own, with its name.
func Queue(name string) ActivityOption { return queueOption(name) }

// OrchestrationOption is an option of NewOrchestration: Group, or a LimitOption.
type OrchestrationOption interface {
	applyOrchestration(*limitSettings)
}

// CallOption is an option of Activity.Call and Activity.Start: Retry, KeepSlot, AttemptTimeout, Within.
type CallOption interface {
	applyCall(*replay.Call)
}

// Retry is a CallOption and a ChildOption: a failed attempt is followed by another, after a backoff. Each attempt is a schedule of its
// own in history; those of an activity have one idempotency key. Without this option there is one attempt. (A worker that dies is not a
// failed attempt: its activity is given to another worker.)
//
// Each attempt of a child is an instance of its own. With an explicit ID the further ones have the ids ID~2, ID~3 and so on. A child
// that was cancelled is not started again.
//
// A failure that is Permanent, or one of Unless, is final; so is one of the action's limits, unless Limited is set. The error of the call is
// that of the last attempt.
type Retry struct {
	Attempts int           // maximum number, the first included; 0: 5
	Initial  time.Duration // backoff after the first failure; 0: one second
	Factor   float64       // ratio of each backoff to the one before; below 1: 2
	Max      time.Duration // maximum backoff; 0: one minute
	Unless   []*Error      // failures that are final
	Limited  bool          // retry also after ErrQueueFull, ErrQueueTimeout, ErrQueueCleared and ErrLimited
}

func (r Retry) applyCall(c *replay.Call) {
	c.Retry = replay.Retry{Attempts: r.Attempts, Initial: r.Initial, Factor: r.Factor, Max: r.Max, Limited: r.Limited}.WithDefaults()
	for _, e := range r.Unless {
		c.Retry.Unless = append(c.Retry.Unless, e.Code())
	}
}

func (r Retry) applyChild(s *childSettings) { r.applyCall(&s.call) }

type attemptTimeout time.Duration

func (d attemptTimeout) applyCall(c *replay.Call) { c.AttemptTimeout = time.Duration(d) }

// AttemptTimeout returns a CallOption: an attempt that has no result after d is cancelled and fails with ErrTimeout; Retry may repeat it. The
// time counts from its schedule, or, if the activity is limited, from its admission. With zero or less there is no timeout, which is
// the default.
func AttemptTimeout(d time.Duration) CallOption { return attemptTimeout(d) }

type keepSlot struct{}

func (keepSlot) applyCall(c *replay.Call) { c.KeepSlot = true }

// KeepSlot returns a CallOption: a call of a limited activity keeps its slot between the attempts of its Retry, through the backoff, and
// does not wait again. Other calls wait for that time.
func KeepSlot() CallOption { return keepSlot{} }

// Within is a CallOption and a ChildOption: a call that has no result after that time, including all attempts, backoffs and waits, is
// cancelled and fails with ErrTimeout. With zero or less there is no timeout, which is the default.
type Within time.Duration

func (d Within) applyCall(c *replay.Call) { c.Within = time.Duration(d) }

func (d Within) applyChild(s *childSettings) { d.applyCall(&s.call) }
