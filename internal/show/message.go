package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// message returns the summary of an event about another instance, another execution or other code.
func message(e history.Event) string {
	switch e := e.(type) {
	case *history.ChildScheduled:
		return called(noted(e.Name+" as "+e.Instance, version(e.Version), parentClose(e)), e.Payload)
	case *history.ChildCompleted:
		return called(fmt.Sprintf("of %d", e.Scheduled), e.Result)
	case *history.ChildFailed:
		return fmt.Sprintf("of %d: %s", e.Scheduled, e.Failure.Message)
	case *history.ChildCancelRequested:
		return by(fmt.Sprintf("of %d: %s", e.Scheduled, e.Reason), e.By, e.Text)
	case *history.EventSent:
		return called(noted(e.Name+" to "+e.Instance, starts(e.Start)), e.Payload)
	case *history.Broadcast:
		return by(called(e.String(), e.Payload), "", e.Text)
	case *history.ContinuedAsNew:
		return called(noted("", version(e.Version)), e.Payload)
	case *history.Refused:
		return e.Name + ": " + e.Failure.Message
	case *history.PatchMarked:
		return e.Name
	case *history.Granted:
		return fmt.Sprintf("of %d", e.Scheduled)
	case *history.UpdateReceived:
		return by(called(e.Name+" "+e.UpdateID, e.Payload), e.By, "")
	case *history.UpdateAnswered:
		if e.Failure != nil {
			return fmt.Sprintf("of %d: rejected: %s", e.Update, e.Failure.Message)
		}
		return called(fmt.Sprintf("of %d", e.Update), e.Result)
	case *history.Observed:
		return "every input that had arrived"
	case *history.OperatorRequested: // only in inboxes
		return by(e.Verb.String(), e.By, e.Text)
	case *history.Paused:
		if e.Stop {
			return by("activities stopped", e.By, e.Text)
		}
		return by("", e.By, e.Text)
	case *history.Resumed:
		return by("", e.By, e.Text)
	case *history.Rewound:
		return by(fmt.Sprintf("execution %d begins with these events of %d", e.Execution, e.From), e.By, e.Text)
	case *history.PurgeRequested: // only in inboxes
		if e.Force {
			return by("forced", e.By, e.Text)
		}
		return by("", e.By, e.Text)
	default:
		return ""
	}
}

func started(e *history.Started) string {
	parent, requester := "", e.By
	if e.Parent != nil {
		parent = "child of " + e.Parent.Instance
		if requester == e.Parent.Instance {
			requester = ""
		}
	}
	cancelled := ""
	if e.Cancel != nil {
		cancelled = "cancelled before it began"
	}
	return by(called(noted(e.Name, version(e.Version), parent, waits(e.Limit), cancelled), e.Payload), requester, "")
}

// waits names the limit at which a call or a start waits.
func waits(g *history.Limit) string {
	if g == nil || !g.Waiting {
		return ""
	}
	return "waits at limit " + g.Name
}

func cancelRequested(e *history.CancelRequested) string {
	reason := ""
	if e.Reason != 0 {
		reason = e.Reason.String()
	}
	return by(reason, e.By, e.Text)
}

// parentClose describes a child that does not end with its parent.
func parentClose(e *history.ChildScheduled) string {
	switch {
	case e.Detached:
		return "detached"
	case e.Abandon:
		return "outlives its parent"
	default:
		return ""
	}
}

// starts describes the instance that an event starts if its receiver does not exist.
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

// noted appends the notes that are not empty, in parentheses.
func noted(text string, notes ...string) string {
	notes = slices.DeleteFunc(notes, func(n string) bool { return n == "" })
	if len(notes) == 0 {
		return text
	}
	return strings.TrimSpace(text + " (" + strings.Join(notes, ", ") + ")")
}
