package settings

import (
	"fmt"
	"strings"
	"time"
)

// Retention is how long instances are kept that have ended, by how they ended; less than
// zero is forever. As text it is one duration for all, or one a status:
//
//	72h
//	forever
//	completed=24h,failed=720h,cancelled=forever
//
// A status that is not named is kept for DefaultRetention.
type Retention struct {
	Completed, Failed, Cancelled time.Duration
}

// DefaultRetention is the default retention of instances.
const DefaultRetention = 72 * time.Hour

const (
	forever     = "forever"
	keptForEver = time.Duration(-1)
)

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
			return fmt.Errorf("%q is no status that has an end: want completed, failed or cancelled", status)
		}
	}
	return nil
}

// span reads a length of time that something is kept for.
func span(text string) (time.Duration, error) {
	if text == forever {
		return keptForEver, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no time to keep something for: want one such as 72h, or forever", text)
	}
	return d, nil
}
