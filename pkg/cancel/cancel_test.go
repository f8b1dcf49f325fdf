package cancel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"testing"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// The numbers and names are part of histories and exports.
func TestReasonsKeepNumbersAndRoundTrip(t *testing.T) {
	for i, word := range []string{
		"requested", "lost-select", "orchestration-failed", "orchestration-completed", "continued-as-new", "purged",
		"scope-ended", "lease-lost", "worker-stopping", "timed-out",
		"terminated", "paused", "rewound",
	} {
		want := cancel.Reason(i + 1)
		b, err := json.Marshal(want)
		if err != nil || string(b) != fmt.Sprintf("%q", word) {
			t.Errorf("reason %d is written as %s, %v; want %s", i+1, b, err, word)
		}
		var got cancel.Reason
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Errorf("%s is read as %d, %v; want %d", b, got, err, want)
		}
	}
	var r cancel.Reason
	if err := r.UnmarshalText([]byte("bored")); err == nil {
		t.Errorf("an unknown reason is read as %s", r)
	}
	if got := cancel.Reason(200).String(); got != "reason-200" {
		t.Errorf("a reason of a newer build is shown as %s", got)
	}
}

func TestCancelledMatchesReasonAndContextCanceled(t *testing.T) {
	err := fmt.Errorf("charge: %w", &cancel.Cancelled{Reason: cancel.LostSelect, By: "ada", Text: "too late"})
	for target, want := range map[error]bool{
		context.Canceled: true, &cancel.Cancelled{}: true, &cancel.Cancelled{Reason: cancel.LostSelect}: true,
		&cancel.Cancelled{Reason: cancel.Purged}: false, context.DeadlineExceeded: false,
	} {
		if errors.Is(err, target) != want {
			t.Errorf("is %v: %v", target, !want)
		}
	}
	if got := err.Error(); got != "charge: cancelled: lost-select by ada: too late" {
		t.Error(got)
	}
}
