package replay

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// Divergence reports that the code did not do on replay what it did when the history was recorded. The code has changed, or
// depends on something that is no input.
type Divergence struct {
	Instance string
	EventID  uint64 // of the first difference
	Expected string // event of the history
	Met      string // decision of the code
	Where    string // file:line of the author's code, if it can be determined
}

// Error returns the difference on one line.
func (d *Divergence) Error() string {
	text := fmt.Sprintf("replay of %s diverges at event %d: history has %s, and replay met %s",
		d.Instance, d.EventID, d.Expected, d.Met)
	if d.Where != "" {
		text += " at " + d.Where
	}
	return text
}

// diverge breaks the execution. The first divergence counts.
func (x *record) diverge(id uint64, expected, met string) {
	if x.err != nil {
		return
	}
	d := &Divergence{Instance: x.id.Instance, EventID: id, Expected: expected, Met: met}
	if x.current.Load() != nil {
		d.Where = authorsLine()
	}
	x.past.divergence = d
	x.err = d
	x.unwinding = true
}

// locate adds the line where the code waits to a divergence that no call of the code made.
func (p *past) locate() {
	if p.divergence != nil && p.divergence.Where == "" {
		p.divergence.Where = authorsLine()
	}
}

// authorsLine is the innermost line on the stack outside Pawl's API.
func authorsLine() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if !ours(frame.Function) {
			if strings.HasPrefix(frame.Function, "iter.") || strings.HasPrefix(frame.Function, "runtime.") || frame.File == "" {
				return ""
			}
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
		if !more {
			return ""
		}
	}
}

func ours(function string) bool {
	return strings.HasPrefix(function, "github.com/pawlrun/pawl.") ||
		strings.HasPrefix(function, "github.com/pawlrun/pawl/internal/replay.")
}

// subject is the name and target of a decision: it must be the same on replay, as the kind must. It is empty if the kind is
// sufficient.
func subject(ev history.Event) string {
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		return ev.Name
	case *history.ChildScheduled:
		if ev.Detached {
			return ev.Name + " as " + ev.Instance + ", detached"
		}
		return ev.Name + " as " + ev.Instance
	case *history.EventSent:
		if ev.Start != nil {
			return ev.Name + " to " + ev.Instance + ", or to a new " + ev.Start.Name
		}
		return ev.Name + " to " + ev.Instance
	case *history.UpdateAnswered:
		return fmt.Sprintf("%d", ev.Update)
	case *history.Broadcast:
		return ev.String()
	default:
		return ""
	}
}

// nameOf is the name under which a payload is reported.
func nameOf(ev history.Event) string {
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		return ev.Name
	case *history.ChildScheduled:
		return ev.Name
	case *history.EventSent:
		return ev.Name
	case *history.Broadcast:
		return ev.Name
	default:
		return ""
	}
}

// payloadOf is the payload of a decision that is compared on replay.
func payloadOf(ev history.Event) history.Payload {
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		return ev.Payload
	case *history.ChildScheduled:
		return ev.Payload
	case *history.EventSent:
		return ev.Payload
	case *history.Broadcast:
		return ev.Payload
	case *history.Completed:
		return ev.Result
	case *history.UpdateAnswered:
		return ev.Result
	case *history.ContinuedAsNew:
		return ev.Payload
	default:
		return history.Payload{}
	}
}

// describeDecision names a decision without an event.
func describeDecision(kind history.Kind) string {
	switch kind {
	case history.KindTimerScheduled:
		return "TimerScheduled"
	case history.KindSideEffectRecorded:
		return "SideEffectRecorded"
	default:
		return fmt.Sprintf("a decision of kind %d", kind)
	}
}

// describe names an event for messages.
func describe(ev history.Event) string {
	switch ev := ev.(type) {
	case nil:
		return "nothing more in this step"
	case *history.Started:
		return "Started of " + ev.Name
	case *history.EventReceived:
		return "EventReceived of " + ev.Name
	case *history.CancelRequested:
		return "CancelRequested"
	case *history.ActivityScheduled:
		return "ActivityScheduled of " + ev.Name
	case *history.ActivityCompleted:
		return ofEvent("ActivityCompleted", ev.Scheduled)
	case *history.ActivityFailed:
		return ofEvent("ActivityFailed", ev.Scheduled)
	case *history.ActivityCancelRequested:
		return ofEvent("ActivityCancelRequested", ev.Scheduled)
	case *history.TimerScheduled:
		return "TimerScheduled"
	case *history.TimerFired:
		return ofEvent("TimerFired", ev.Timer)
	case *history.TimerCancelled:
		return ofEvent("TimerCancelled", ev.Timer)
	case *history.SideEffectRecorded:
		return "SideEffectRecorded"
	case *history.PatchMarked:
		return "PatchMarked of " + ev.Name
	case *history.Refused:
		return fmt.Sprintf("Refused of %s (kind %d)", ev.Name, ev.Of)
	case *history.Completed:
		return "Completed"
	case *history.Failed:
		return describeFailed(ev.Failure.Code)
	case *history.Cancelled:
		return "Cancelled"
	case *history.ContinuedAsNew:
		return "ContinuedAsNew"
	default:
		return describeMessage(ev)
	}
}

// describeFailed does not have the message: divergences are stored and logged as they are, and a message may be sealed.
func describeFailed(code string) string {
	if code == "" {
		return "Failed"
	}
	return "Failed (" + code + ")"
}

func describeMessage(ev history.Event) string {
	switch ev := ev.(type) {
	case *history.PurgeRequested:
		return "PurgeRequested"
	case *history.Paused:
		return "Paused"
	case *history.Resumed:
		return "Resumed"
	case *history.Rewound:
		return "Rewound"
	case *history.Granted:
		return ofEvent("Granted", ev.Scheduled)
	case *history.Observed:
		return "Observed"
	case *history.UpdateReceived:
		return "UpdateReceived of " + ev.Name
	case *history.UpdateAnswered:
		return ofEvent("UpdateAnswered", ev.Update)
	case *history.ChildScheduled:
		return "ChildScheduled of " + subject(ev)
	case *history.ChildCompleted:
		return ofEvent("ChildCompleted", ev.Scheduled)
	case *history.ChildFailed:
		return ofEvent("ChildFailed", ev.Scheduled)
	case *history.ChildCancelRequested:
		return ofEvent("ChildCancelRequested", ev.Scheduled)
	case *history.EventSent:
		return "EventSent of " + subject(ev)
	case *history.Broadcast:
		return "Broadcast of " + subject(ev)
	default:
		return fmt.Sprintf("an event of the unknown kind %d", ev.Kind())
	}
}

func ofEvent(kind string, id uint64) string { return fmt.Sprintf("%s of event %d", kind, id) }
