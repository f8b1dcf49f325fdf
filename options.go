package pawl

import (
	"time"

	"github.com/pawlrun/pawl/internal/replay"
)

// ActivityOption is an option of NewActivity: Queue, Group or a LimitOption.
type ActivityOption interface {
	applyActivity(*activitySettings)
}

type activitySettings struct {
	queue  string
	limits limitSettings
}

type queueOption string

func (q queueOption) applyActivity(s *activitySettings) { s.queue = string(q) }

// Queue assigns the activity to a named task queue, which several activities may share. By default, an activity has its own queue, named
// after the activity.
func Queue(name string) ActivityOption { return queueOption(name) }

// OrchestrationOption is an option of NewOrchestration: Group or a LimitOption.
type OrchestrationOption interface {
	applyOrchestration(*limitSettings)
}

// CallOption is an option of Activity.Call and Activity.Start: Retry, KeepSlot, AttemptTimeout or Within.
type CallOption interface {
	applyCall(*replay.Call)
}

// Retry is a CallOption and a ChildOption that repeats failed attempts after a backoff. Each attempt is scheduled as a separate event in
// the history; all attempts of an activity have the same idempotency key. Without Retry there is one attempt. The death of a worker does
// not count as a failed attempt: the same attempt is given to another worker.
//
// Each attempt of a child is a separate instance. With an explicit ID, the later ones have the ids ID~2, ID~3 and so on. A child that was
// cancelled is not started again.
//
// A failure that is Permanent or listed in Unless is final. So is a rejection by a limit of the action, unless Limited is set. The call
// returns the error of its last attempt.
type Retry struct {
	Attempts int           // maximum number of attempts, including the first; 0 means 5
	Initial  time.Duration // backoff after the first failure; 0 means one second
	Factor   float64       // ratio of each backoff to the previous one; below 1 means 2
	Max      time.Duration // maximum backoff; 0 means one minute
	Unless   []*Error      // failures that are not retried
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

// AttemptTimeout returns a CallOption that bounds each attempt: an attempt without a result after d is cancelled and fails with
// ErrTimeout, which Retry may repeat. The time counts from when the attempt is scheduled or, if the activity is limited, from its
// admission. Zero or less means no timeout, which is the default.
func AttemptTimeout(d time.Duration) CallOption { return attemptTimeout(d) }

type keepSlot struct{}

func (keepSlot) applyCall(c *replay.Call) { c.KeepSlot = true }

// KeepSlot returns a CallOption with which a call of a limited activity keeps its slot between the attempts of its Retry, so it does not
// have to wait for admission again. Other calls wait during its backoff.
func KeepSlot() CallOption { return keepSlot{} }

// Within is a CallOption and a ChildOption that bounds the whole call, including all attempts, backoffs and waits: a call without a
// result after that time is cancelled and fails with ErrTimeout. Zero or less means no timeout, which is the default.
type Within time.Duration

func (d Within) applyCall(c *replay.Call) { c.Within = time.Duration(d) }

func (d Within) applyChild(s *childSettings) { d.applyCall(&s.call) }
