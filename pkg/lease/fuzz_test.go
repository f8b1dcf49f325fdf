package lease_test

import (
	"testing"

	"github.com/pawlrun/pawl/pkg/lease"
)

// FuzzReport reads reports, which workers write. A refusal quotes a bounded part of the text.
func FuzzReport(f *testing.F) {
	f.Add(`{"how":"stopped","after_ms":12,"worker":"w","at":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := lease.ParseReport(text); err != nil && len(err.Error()) > 1000 {
			t.Errorf("%d bytes: %.1000v", len(err.Error()), err)
		}
	})
}
