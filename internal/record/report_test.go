package record_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/lease"
)

func TestReportIsReadAsItWasWritten(t *testing.T) {
	const text = `{"how":"stopped","after_ms":1500,"worker":"w","at":1790000000123}`
	r, ok := record.DecodeReport(text)
	if !ok || r != (lease.Report{Ending: lease.Stopped, After: 1500 * time.Millisecond, Worker: "w", At: time.UnixMilli(1_790_000_000_123).UTC()}) {
		t.Fatalf("%+v", r)
	}
	if got := string(record.EncodeReport(r)); got != text {
		t.Errorf("written as %s", got)
	}
	if r, ok = record.DecodeReport(`{"how":"abandoned","after_ms":1}`); !ok || !r.At.IsZero() {
		t.Fatalf("without a time: %+v", r)
	}
	for _, text := range []string{"", "{", "{}", `{"how":1}`, `{"how":"stopped","after_ms":-1}`, `{"how":"stopped","after_ms":9223372036854775807}`} {
		if r, ok := record.DecodeReport(text); ok {
			t.Errorf("%q is parsed as %+v", text, r)
		}
	}
}

// FuzzReport parses reports, which any worker may write.
func FuzzReport(f *testing.F) {
	f.Add(`{"how":"stopped","after_ms":12,"worker":"w","at":1}`)
	f.Add(`{"how":"` + string(lease.FinishedFirst) + `","after_ms":9223372036854,"at":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := record.DecodeReport(text); ok && (r.Ending == "" || r.After < 0 || r.At.Location() != time.UTC) {
			t.Errorf("%+v", r)
		}
	})
}
