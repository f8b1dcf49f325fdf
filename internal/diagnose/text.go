package diagnose

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

// MaxText bounds the bytes of a text that fills a screen.
const MaxText = 2_000

// Short cuts a text that is longer than most bytes.
func Short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// OneLine is the text of a failure, which may have many lines, for one that has room for one.
func OneLine(s string) string {
	return Short(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "), MaxText)
}

// Duration shows a length of time with as many digits as one looks at.
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

// Clock is the time of day of Unix milliseconds, in UTC; with the day if that is not soon.
func Clock(t time.Time) string {
	t = t.UTC()
	if time.Until(t) > 12*time.Hour {
		return t.Format("2006-01-02 15:04:05") + " UTC"
	}
	return t.Format("15:04:05") + " UTC"
}

// Counted is a number of things, in English whose plural has an s.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ActionAndKey is an action, and which of its queues.
func ActionAndKey(action, key string) string {
	if key == "" {
		return action
	}
	return action + " (key " + key + ")"
}

// CancelOutcome says how a cancelled activity ended.
func CancelOutcome(r client.Report) string {
	on := ""
	if r.Worker != "" {
		on = " on " + r.Worker
	}
	switch r.How {
	case client.HowStopped:
		if r.After < time.Millisecond {
			return "stopped at once" + on
		}
		return "stopped after " + Duration(r.After) + on
	case client.HowFinishedFirst:
		return "finished first" + on
	case client.HowFinishedLate:
		return "finished before it was told" + on
	case client.HowNeverStarted:
		return "never started"
	case client.HowAbandoned:
		return "abandoned after " + Duration(r.After) + on
	default: // of a newer worker
		return string(r.How) + on
	}
}
