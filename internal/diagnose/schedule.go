package diagnose

import (
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/pkg/client"
)

// ScheduleTimes describes the times of a schedule.
func ScheduleTimes(t client.Times) string {
	all := append([]string{}, t.Cron...)
	if n := len(t.Calendars); n > 0 {
		all = append(all, Counted(n, "calendar"))
	}
	if n := len(t.Except); n > 0 {
		all = append(all, fmt.Sprintf("except %d", n))
	}
	return strings.TrimSpace(strings.Join(all, " | ") + " " + t.Zone)
}

// ScheduleAction describes what a schedule does at its times.
func ScheduleAction(s client.Schedule) string {
	switch {
	case s.Start != nil:
		return "start " + s.Start.Orchestration
	case s.Run != nil:
		return "run " + s.Run.Activity
	case s.Send != nil:
		return "send " + s.Send.Event + " to " + s.Send.Instance
	default:
		return ""
	}
}
