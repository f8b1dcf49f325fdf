package replay

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// Divergence reports that the code did something else on replay than when the history was recorded. Either the code has changed, or it
// depends on something that is not an input.
type Divergence struct {
	Instance string
	EventID  uint64 // event id of the first mismatch
	Expected string // the recorded event
	Met      string // what the code did instead
	Where    string // file:line of the author's code, if it can be determined
}

// Error describes the mismatch on one line.
func (d *Divergence) Error() string {
	text := fmt.Sprintf("replay of %s diverges at event %d: history has %s, and replay met %s",
		d.Instance, d.EventID, d.Expected, d.Met)
	if d.Where != "" {
		text += " at " + d.Where
	}
	return text
}

// diverge breaks the execution. Only the first divergence is kept.
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

// locate adds the line where the code waits to a divergence that was not detected in a call of the code.
func (p *past) locate() {
	if p.divergence != nil && p.divergence.Where == "" {
		p.divergence.Where = authorsLine()
	}
}

// authorsLine returns the innermost line on the stack that is outside Pawl's API.
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

// subject returns the name and target of a decision, which must be the same on replay, like the kind. It is empty if comparing the kind
// is enough.
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

// nameOf returns the name under which a payload is reported.
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

// payloadOf returns the payload of a decision that is compared on replay.
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

// describe names an event in messages. It omits the message of a failure: divergences are stored and logged as they are, and the message may be
// sealed.
func describe(ev history.Event) string {
	if ev == nil {
		return "nothing more in this step"
	}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", ev), "*history.")
	switch ev := ev.(type) {
	case *history.Started:
		return kind + " of " + ev.Name
	case *history.EventReceived:
		return kind + " of " + ev.Name
	case *history.ActivityScheduled:
		return kind + " of " + ev.Name
	case *history.ActivityCompleted:
		return ofEvent(kind, ev.Scheduled)
	case *history.ActivityFailed:
		return ofEvent(kind, ev.Scheduled)
	case *history.ActivityCancelRequested:
		return ofEvent(kind, ev.Scheduled)
	case *history.TimerFired:
		return ofEvent(kind, ev.Timer)
	case *history.TimerCancelled:
		return ofEvent(kind, ev.Timer)
	case *history.PatchMarked:
		return kind + " of " + ev.Name
	case *history.Refused:
		return fmt.Sprintf("%s of %s (kind %d)", kind, ev.Name, ev.Of)
	case *history.Failed:
		if ev.Failure.Code == "" {
			return kind
		}
		return kind + " (" + ev.Failure.Code + ")"
	case *history.Granted:
		return ofEvent(kind, ev.Scheduled)
	case *history.UpdateReceived:
		return kind + " of " + ev.Name
	case *history.UpdateAnswered:
		return ofEvent(kind, ev.Update)
	case *history.ChildCompleted:
		return ofEvent(kind, ev.Scheduled)
	case *history.ChildFailed:
		return ofEvent(kind, ev.Scheduled)
	case *history.ChildCancelRequested:
		return ofEvent(kind, ev.Scheduled)
	case *history.ChildScheduled, *history.EventSent, *history.Broadcast:
		return kind + " of " + subject(ev)
	default:
		return kind
	}
}

func ofEvent(kind string, id uint64) string { return fmt.Sprintf("%s of event %d", kind, id) }
