package diagnose

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// NotLimited describes a policy without limits.
const NotLimited = "not limited (overrides the code and less specific levels)"

// Policy describes a policy on one line.
func Policy(p client.Policy) string {
	if !p.Limits() {
		return NotLimited
	}
	var all []string
	if p.Paused {
		all = append(all, Pause(p))
	}
	if p.Concurrency > 0 {
		all = append(all, fmt.Sprintf("concurrency %d", p.Concurrency))
	}
	if p.Rate > 0 {
		all = append(all, "rate "+Rate(p))
	}
	if p.Quota > 0 {
		all = append(all, "quota "+Quota(p))
	}
	if p.Key != "" {
		all = append(all, "key "+p.Key)
	}
	return strings.Join(append(all, WhenLimited(p)), ", ")
}

// Pause describes the pause of an action: by whom, since when, and why.
func Pause(p client.Policy) string {
	text := "paused"
	if p.PausedBy != "" {
		text += " by " + p.PausedBy
	}
	if !p.PausedAt.IsZero() {
		text += " since " + Clock(p.PausedAt, time.Now())
	}
	if p.PausedFor != "" {
		text += fmt.Sprintf(" (%q)", p.PausedFor)
	}
	return text
}

// Rate describes the rate of a policy.
func Rate(p client.Policy) string {
	return fmt.Sprintf("%d per %s", p.Rate, Span(p.RateWindow))
}

// Quota describes the quota of a policy.
func Quota(p client.Policy) string {
	return fmt.Sprintf("%d per %s", p.Quota, Span(p.QuotaWindow))
}

// WhenLimited describes what happens to calls over the limit.
func WhenLimited(p client.Policy) string {
	if p.Reject {
		return "others are rejected"
	}
	limit := p.QueueLimit
	if limit == 0 {
		limit = history.DefaultQueueLimit
	}
	if timeout := queueTimeout(p); timeout > 0 {
		return fmt.Sprintf("max waiters %d, max wait %s", limit, Span(timeout))
	}
	return fmt.Sprintf("max waiters %d, max wait forever", limit)
}

// Span formats a duration without zero parts: 24h, not 24h0m0s.
func Span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
