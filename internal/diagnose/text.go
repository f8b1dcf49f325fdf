package diagnose

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/lease"
)

// MaxText is the maximum number of bytes of a long text.
const MaxText = 2_000

// Short cuts a text to at most limit bytes, and appends an ellipsis if it was longer.
func Short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return text.Cut(s, limit) + "…"
}

// OneLine joins the lines of a text with semicolons, and cuts it to MaxText bytes.
func OneLine(s string) string {
	return Short(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "), MaxText)
}

// ByWhom formats the requester and the reason of a request; both may be empty.
func ByWhom(requester, reason string) (s string) {
	if requester != "" {
		s = "by " + requester
	}
	if reason != "" {
		s += ": " + reason
	}
	return s
}

// Duration formats a duration with about three significant digits.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	default:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// Clock formats a time of day in UTC, with the date if it is more than 12 hours from now.
func Clock(t, now time.Time) string {
	t = t.UTC()
	if t.Sub(now).Abs() > 12*time.Hour {
		return t.Format("2006-01-02 15:04:05") + " UTC"
	}
	return t.Format("15:04:05") + " UTC"
}

// Counted formats a number with its noun, whose plural must end in s.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Number(n) + " " + what + "s"
}

// Number formats a number with a comma between thousands.
func Number[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ActionAndKey formats the name of a limit.
func ActionAndKey(action, key string) string {
	if key == "" {
		return action
	}
	return action + " (key " + key + ")"
}

// CancelOutcome describes how a cancelled activity ended.
func CancelOutcome(r lease.Report) string {
	on := ""
	if r.Worker != "" {
		on = " on " + r.Worker
	}
	switch r.Ending {
	case lease.Stopped:
		if r.After < time.Millisecond {
			return "stopped at once" + on
		}
		return "stopped after " + Duration(r.After) + on
	case lease.FinishedFirst:
		return "finished first" + on
	case lease.FinishedLate:
		return "finished before it was notified" + on
	case lease.NeverStarted:
		return "never started"
	case lease.Abandoned:
		return "abandoned after " + Duration(r.After) + on
	default: // reported by a newer worker
		return string(r.Ending) + on
	}
}
