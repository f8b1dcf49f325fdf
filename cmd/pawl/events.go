package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/history"
)

// eventJSON is an event as an object: id, at and kind first, then its own fields.
func eventJSON(e history.Event) any {
	fields := map[string]any{}
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "Head" {
			continue
		}
		value := v.Field(i).Interface()
		if p, ok := value.(history.Payload); ok {
			value = readable(p)
		}
		if f, ok := value.(history.Failure); ok {
			value = failureJSON(f)
		}
		fields[strings.ToLower(name[:1])+name[1:]] = value
	}
	return struct {
		ID     uint64         `json:"id"`
		At     string         `json:"at"`
		Kind   string         `json:"kind"`
		Fields map[string]any `json:"fields"`
	}{e.Meta().ID, stamp(e.Meta().At), kind(e), fields}
}

// kind is the name of an event's type.
func kind(e history.Event) string { return reflect.TypeOf(e).Elem().Name() }

func eventTable(w io.Writer, events []history.Event) error {
	t := &term.Table{Header: []string{"ID", "AT (UTC)", "EVENT", "WHAT"}, Right: []int{0}}
	for _, e := range events {
		t.Add(e.Meta().ID, e.Meta().Time().Format("15:04:05.000"), kind(e), short(summary(e), shortCell))
	}
	return t.Write(w)
}

// summary says on one line what an event is about.
func summary(e history.Event) string {
	switch e := e.(type) {
	case *history.Started:
		return by(called(e.Name, e.Payload), e.By, "")
	case *history.EventReceived:
		return by(called(e.Name, e.Payload), e.By, "")
	case *history.CancelRequested:
		return by("", e.By, e.Text)
	case *history.ActivityScheduled:
		if e.Attempt > 1 {
			return called(fmt.Sprintf("%s (attempt %d)", e.Name, e.Attempt), e.Payload)
		}
		return called(e.Name, e.Payload)
	case *history.ActivityCompleted:
		return ended(e.Scheduled, e.Worker, e.Claims) + " " + string(readable(e.Result))
	case *history.ActivityFailed:
		return ended(e.Scheduled, e.Worker, e.Claims) + " " + e.Failure.Message
	case *history.ActivityCancelRequested:
		return by(fmt.Sprintf("of %d: %s", e.Scheduled, e.Reason), e.By, e.Text)
	case *history.TimerScheduled:
		return "for " + when(e.FireAt) + " UTC"
	case *history.TimerFired:
		return fmt.Sprintf("of %d", e.Timer)
	case *history.TimerCancelled:
		return fmt.Sprintf("of %d", e.Timer)
	case *history.Completed:
		return string(readable(e.Result))
	case *history.Failed:
		return e.Failure.Message
	case *history.Cancelled:
		if e.Failure.Code == history.CodeCancelled { // it tells who and why
			return e.Failure.Message
		}
		return by(e.Failure.Message, e.By, e.Text)
	default:
		return ""
	}
}

func called(name string, p history.Payload) string {
	return strings.TrimSpace(name + " " + string(readable(p)))
}

func ended(scheduled uint64, worker string, claims uint32) string {
	s := fmt.Sprintf("of %d on %s", scheduled, worker)
	if claims > 1 {
		s += fmt.Sprintf(" (claim %d)", claims)
	}
	return s
}

func by(s, who, text string) string {
	if who != "" {
		s += " by " + who
	}
	if text != "" {
		s += ": " + text
	}
	return strings.TrimSpace(s)
}
