package diagnose

import (
	"fmt"
	"math"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// maxForecast is the longest forecast that is given as a number.
const maxForecast = 365 * 24 * time.Hour

// Forecast estimates when the last waiter of a limit is admitted, from its rate and quota and from the measured number of calls that end per
// second; 0: not measured. It returns "" if there is nothing to estimate.
func Forecast(q client.QueueInfo, perSecond float64) string {
	if q.Waiting == 0 {
		return ""
	}
	if q.Deadlocked {
		return "None is admitted while the limit is deadlocked."
	}
	if q.Policy.Paused {
		return "None is admitted until the action is resumed."
	}
	atLeast := admission(q.Waiting, q.Policy)
	var measured time.Duration
	if perSecond > 0 && q.Policy.Concurrency > 0 {
		measured = seconds(float64(q.Waiting) / perSecond)
	}
	took, last := max(atLeast, measured), "The last of "+Counted(count(q.Waiting), "waiter")
	switch timeout := queueTimeout(q.Policy); {
	case took == 0:
		return ""
	case timeout > 0 && took > timeout:
		return fmt.Sprintf("%s would be admitted in about %s, but a wait ends after %s: some will time out.", last, about(took), Span(timeout))
	case measured == 0 && q.Policy.Concurrency > 0:
		return fmt.Sprintf("%s is admitted in %s at the earliest.", last, about(took))
	default:
		return fmt.Sprintf("%s is admitted in about %s.", last, about(took))
	}
}

// Preview describes, one per line, what a policy would change for the callers of a limit.
func Preview(q client.QueueInfo, next client.Policy) []string {
	waiting, active := count(q.Waiting), count(q.Active)
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !next.Limits() {
		add("Nothing is limited: %s admitted at once.", areWaiters(waiting))
		return out
	}
	if limit := int(next.Concurrency); limit > 0 { // for each key
		switch free := limit - active; {
		case active > limit && q.Keys == 0:
			add("%s now: none is stopped, and none is admitted until fewer than %d are left.", Counted(active, "holder"), limit)
		case q.Keys > 1:
			add("%d at a time for each of %d keys in use; %s and %s now.", limit, q.Keys, Counted(active, "holder"), Counted(waiting, "waiter"))
		case waiting > 0 && free > 0:
			add("%d of %s admitted at once; the others follow as holders end.", min(free, waiting), areWaiters(waiting))
		case waiting > 0:
			add("%s admitted as holders end.", areWaiters(waiting))
		default:
			add("%d at a time; %s now.", limit, Counted(active, "holder"))
		}
	} else if q.Policy.Concurrency > 0 {
		add("Any number at a time, instead of %d.", q.Policy.Concurrency)
	}
	if took := admission(q.Waiting, next); took > 0 {
		add("%s admitted over %s at least, by the rate and the quota.", areWaiters(waiting), about(took))
	}
	if next.Key != q.Policy.Key && waiting > 0 {
		add("New callers are counted by another key; %s admitted where they wait.", areWaiters(waiting))
	}
	return append(out, queueing(waiting, q.Policy, next)...)
}

// queueing describes what changes for callers that cannot be admitted at once.
func queueing(waiting int, now, next client.Policy) (out []string) {
	if next.Reject {
		if !now.Reject {
			out = append(out, "Callers over the limit are rejected at once instead of waiting.")
		}
		return out
	}
	if limit := int(next.QueueLimit); limit > 0 && waiting >= limit {
		out = append(out, fmt.Sprintf("%s now: further callers are rejected until fewer than %d wait.", Counted(waiting, "waiter"), limit))
	}
	if before, after := queueTimeout(now), queueTimeout(next); after > 0 && (before == 0 || after < before) {
		out = append(out, "Callers that begin to wait do so for "+Span(after)+" at most.")
	}
	return out
}

// admission returns the minimum time in which a rate and a quota admit a number of callers.
func admission(waiting uint64, p client.Policy) time.Duration {
	over := func(limit uint64, window time.Duration) time.Duration {
		if limit == 0 || waiting == 0 {
			return 0
		}
		return seconds(float64((waiting-1)/limit) * window.Seconds())
	}
	return max(over(uint64(p.Rate), p.RateWindow), over(p.Quota, p.QuotaWindow))
}

func seconds(s float64) time.Duration {
	if s >= maxForecast.Seconds() {
		return maxForecast
	}
	return time.Duration(s * float64(time.Second))
}

// queueTimeout returns the maximum wait; zero: unlimited.
func queueTimeout(p client.Policy) time.Duration {
	switch {
	case p.QueueTimeout < 0:
		return 0
	case p.QueueTimeout == 0:
		return history.DefaultQueueTimeout
	default:
		return p.QueueTimeout
	}
}

func about(d time.Duration) string {
	if d >= maxForecast {
		return "more than a year"
	}
	return Duration(d.Round(max(time.Second, d/100).Truncate(time.Second)))
}

func areWaiters(n int) string {
	if n == 1 {
		return "1 waiter is"
	}
	return Counted(n, "waiter") + " are"
}

func count(n uint64) int { return int(min(n, math.MaxInt32)) }
