package show

import (
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// message is the summary of what concerns other instances, other executions, and other code.
func message(e history.Event) string {
	switch e := e.(type) {
	case *history.ChildScheduled:
		return called(noted(e.Name+" as "+e.Instance, version(e.Version), fate(e)), e.Payload)
	case *history.ChildCompleted:
		return called(fmt.Sprintf("of %d", e.Scheduled), e.Result)
	case *history.ChildFailed:
		return fmt.Sprintf("of %d: %s", e.Scheduled, e.Failure.Message)
	case *history.ChildCancelRequested:
		return by(fmt.Sprintf("of %d: %s", e.Scheduled, e.Reason), e.By, e.Text)
	case *history.EventSent:
		return called(noted(e.Name+" to "+e.Instance, starts(e.Start)), e.Payload)
	case *history.ContinuedAsNew:
		return called(noted("", version(e.Version)), e.Payload)
	case *history.Refused:
		return e.Name + ": " + e.Failure.Message
	case *history.PatchMarked:
		return e.Name
	case *history.Granted:
		return fmt.Sprintf("of %d", e.Scheduled)
	case *history.Observed:
		return "every input that had arrived"
	case *history.PurgeRequested: // stands in an inbox
		if e.Force {
			return by("forced", e.By, e.Text)
		}
		return by("", e.By, e.Text)
	default:
		return ""
	}
}

func started(e *history.Started) string {
	parent, who := "", e.By
	if e.Parent != nil {
		parent = "child of " + e.Parent.Instance
		if who == e.Parent.Instance { // as parents name themselves
			who = ""
		}
	}
	cancelled := ""
	if e.Cancel != nil {
		cancelled = "cancelled before it began"
	}
	return by(called(noted(e.Name, version(e.Version), parent, waits(e.Limit), cancelled), e.Payload), who, "")
}

// waits says that an event could not pass its gate at once.
func waits(g *history.Limit) string {
	if g == nil || !g.Waiting {
		return ""
	}
	return "held up at " + g.Name
}

func cancelRequested(e *history.CancelRequested) string {
	reason := ""
	if e.Reason != 0 {
		reason = e.Reason.String()
	}
	return by(reason, e.By, e.Text)
}

// fate is what the end of its parent means to a child, if it is not its end.
func fate(e *history.ChildScheduled) string {
	switch {
	case e.Detached:
		return "detached"
	case e.Abandon:
		return "outlives its parent"
	default:
		return ""
	}
}

// starts says which orchestration an event starts if its receiver is not there.
func starts(s *history.SentStart) string {
	if s == nil {
		return ""
	}
	return called(noted("or a new "+s.Name, version(s.Version)), s.Payload)
}

func version(v string) string {
	if v == "" {
		return ""
	}
	return "version " + v
}

// noted puts those notes that there are in brackets behind the text.
func noted(text string, notes ...string) string {
	var there []string
	for _, n := range notes {
		if n != "" {
			there = append(there, n)
		}
	}
	if len(there) == 0 {
		return text
	}
	return strings.TrimSpace(text + " (" + strings.Join(there, ", ") + ")")
}
