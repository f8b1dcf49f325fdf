// Package cancel defines the reasons of cancellations, and the error that carries them. It imports no other package of Pawl.
package cancel

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Reason is the reason of a cancellation. Its numeric values are recorded in histories, so their meanings never change. The zero value is
// no reason.
type Reason uint8

// The reasons.
const (
	Requested              Reason = 1  // a client or a parent cancelled the instance, or code cancelled the future
	LostSelect             Reason = 2  // another future won the Select
	OrchestrationFailed    Reason = 3  // the orchestration returned an error or panicked
	OrchestrationCompleted Reason = 4  // the orchestration returned a result while the activity was outstanding
	ContinuedAsNew         Reason = 5  // the instance has continued as its next execution
	Purged                 Reason = 6  // the instance was removed by force
	ScopeEnded             Reason = 7  // the scope in which the activity was started has ended
	LeaseLost              Reason = 8  // the worker could not renew within its trust window, or another worker holds the lease
	WorkerStopping         Reason = 9  // the worker is shutting down and releases its leases
	TimedOut               Reason = 10 // the attempt, or the whole call, exceeded its timeout
	Terminated             Reason = 11 // an operator ended the instance without running its code
	Paused                 Reason = 12 // an operator paused the instance and cancelled its running activities; they run again when it is resumed
	Rewound                Reason = 13 // an operator rewound the instance
)

var reasonNames = [...]string{
	Requested: "requested", LostSelect: "lost-select", OrchestrationFailed: "orchestration-failed",
	OrchestrationCompleted: "orchestration-completed", ContinuedAsNew: "continued-as-new", Purged: "purged",
	ScopeEnded: "scope-ended", LeaseLost: "lease-lost", WorkerStopping: "worker-stopping",
	TimedOut: "timed-out", Terminated: "terminated", Paused: "paused", Rewound: "rewound",
}

// String returns the reason as histories and logs show it: lower case, with hyphens.
func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// MarshalText returns the text of String. The error is always nil.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses the text of MarshalText. It returns an error if there is no such reason.
func (r *Reason) UnmarshalText(b []byte) error {
	for i, n := range reasonNames {
		if n != "" && n == string(b) {
			*r = Reason(i)
			return nil
		}
	}
	return fmt.Errorf("cancel: unknown reason %q", b)
}

// Cancelled is the cause of a cancelled activity's context, and the error of a cancelled call. errors.Is(err, context.Canceled) is true
// for it.
type Cancelled struct {
	Reason Reason
	By     string    // requester, as it names itself; empty: unknown
	Text   string    // free text of the requester; may be empty
	At     time.Time // time of the decision, by the clock of Redis; zero: unknown
}

// Error returns the reason, the requester and the text on one line.
func (c *Cancelled) Error() string {
	var b strings.Builder
	b.WriteString("cancelled: ")
	b.WriteString(c.Reason.String())
	if c.By != "" {
		b.WriteString(" by ")
		b.WriteString(c.By)
	}
	if c.Text != "" {
		b.WriteString(": ")
		b.WriteString(c.Text)
	}
	return b.String()
}

// Is reports whether the error matches target: context.Canceled, or a *Cancelled with the same reason or with no reason.
func (c *Cancelled) Is(target error) bool {
	if target == context.Canceled {
		return true
	}
	t, ok := target.(*Cancelled)
	return ok && (t.Reason == 0 || t.Reason == c.Reason)
}
