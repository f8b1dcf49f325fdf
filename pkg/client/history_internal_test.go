package client

import (
	"testing"
	"time"
)

func TestReportIsReadAsItWasWritten(t *testing.T) {
	r := readReport(`{"how":"stopped","after_ms":1500,"worker":"w","at":1790000000123}`)
	if r == nil || *r != (Report{HowStopped, 1500 * time.Millisecond, "w", time.UnixMilli(1_790_000_000_123).UTC()}) {
		t.Fatalf("%+v", r)
	}
	if r = readReport(`{"how":"abandoned","after_ms":1}`); r == nil || !r.At.IsZero() {
		t.Fatalf("without a time: %+v", r)
	}
	for _, text := range []string{"", "{", "{}", `{"how":1}`, `{"how":"stopped","after_ms":-1}`, `{"how":"stopped","after_ms":9223372036854775807}`} {
		if r := readReport(text); r != nil {
			t.Errorf("%q is parsed as %+v", text, r)
		}
	}
}

// FuzzReport parses reports, which any worker may write.
func FuzzReport(f *testing.F) {
	f.Add(`{"how":"stopped","after_ms":12,"worker":"w","at":1}`)
	f.Add(`{"how":"` + string(HowFinishedFirst) + `","after_ms":9223372036854,"at":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if r := readReport(text); r != nil && (r.How == "" || r.After < 0 || r.At.Location() != time.UTC) {
			t.Errorf("%+v", r)
		}
	})
}
