package settings

import (
	"fmt"
	"strings"
	"time"
)

// Retention is the time for which ended instances are kept, by their status. A negative
// time is forever. The text is one time for all, or a time per status:
//
//	72h
//	forever
//	completed=24h,failed=720h,cancelled=forever
//
// A status that is not named has the DefaultRetention.
type Retention struct {
	Completed, Failed, Cancelled time.Duration
}

// DefaultRetention is the default retention of instances.
const DefaultRetention = 72 * time.Hour

// UnmarshalText reads the text.
func (r *Retention) UnmarshalText(text []byte) error {
	if !strings.Contains(string(text), "=") {
		d, err := span(string(text))
		*r = Retention{d, d, d}
		return err
	}
	*r = Retention{DefaultRetention, DefaultRetention, DefaultRetention}
	for part := range strings.SplitSeq(string(text), ",") {
		status, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		d, err := span(value)
		if err != nil {
			return err
		}
		switch status {
		case "completed":
			r.Completed = d
		case "failed":
			r.Failed = d
		case "cancelled":
			r.Cancelled = d
		default:
			return fmt.Errorf("%q is not the status of an ended instance: use completed, failed or cancelled", status)
		}
	}
	return nil
}

// span reads a retention; forever is -1.
func span(text string) (time.Duration, error) {
	if text == "forever" {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a retention: use a positive duration such as 72h, or forever", text)
	}
	return d, nil
}
